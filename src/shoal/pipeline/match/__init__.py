"""Match: events against millions of subscriptions on Spark.

* :mod:`~shoal.pipeline.match.dataframes`: DataFrames in, a DataFrame out;
  :mod:`~shoal.pipeline.match.files`: files in, files out, with
  :mod:`~shoal.pipeline.match.reading`;
* :mod:`~shoal.pipeline.match.worker`: what Spark's Python workers do, with
  :mod:`~shoal.pipeline.match.values`.
"""
