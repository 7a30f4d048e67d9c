"""Spark: the only place that starts a session, the Java for it, and what its workers share."""
