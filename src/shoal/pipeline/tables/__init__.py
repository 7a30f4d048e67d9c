"""Tables: what runs leave, as files in a store and as DataFrames; also what brokers recorded."""
