"""Match: events against millions of subscriptions, as DataFrames; the index lives in workers."""
