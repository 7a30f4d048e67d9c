"""The pipeline on Spark: plan -> simulate -> tables -> measure -> judge -> report.

* :mod:`~shoal.pipeline.plan`: an experiment becomes a list of runs, checked before any starts.
* :mod:`~shoal.pipeline.experiment_file`: a user's own experiment, from TOML.
* :mod:`~shoal.pipeline.session`: the only place that starts Spark, with the Java that
  :mod:`~shoal.pipeline.java` finds.
* :mod:`~shoal.pipeline.sweep`: simulates a plan on Spark; :mod:`~shoal.pipeline.worker` is what a
  task does, :mod:`~shoal.pipeline.progress` says how far it is.
* :mod:`~shoal.pipeline.store`: the files; :mod:`~shoal.pipeline.fold` makes few of many.
* :mod:`~shoal.pipeline.tables`: the recorded tables as DataFrames.

Import what you need from these modules: the package itself imports nothing, since every worker
loads it.
"""
