"""The pipeline on Spark: plan -> simulate -> tables -> measure -> judge -> report.

Each stage is a package:

* :mod:`~shoal.pipeline.plan`: an experiment becomes a list of runs.
* :mod:`~shoal.pipeline.simulate`: Spark's tasks simulate the runs.
* :mod:`~shoal.pipeline.tables`: the files that runs leave, and the same as DataFrames.
* :mod:`~shoal.pipeline.measure`: tables become numbers, one per run and measure.
* :mod:`~shoal.pipeline.judge`: numbers decide what a paper claims.
* :mod:`~shoal.pipeline.report`: figures and verdicts on one page.

Whole jobs are :mod:`~shoal.pipeline.reproduce` (a :mod:`~shoal.pipeline.paper`, from plan to
report) and :mod:`~shoal.pipeline.advise`. Beside the stages, :mod:`~shoal.pipeline.match` matches
batches of events against millions of subscriptions. :mod:`~shoal.pipeline.spark` starts Spark.

Import what you need from the modules: packages import nothing, since every worker loads them.
"""
