"""Simulate: a sweep puts runs into Spark tasks; a worker simulates the runs of one task."""
