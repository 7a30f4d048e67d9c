"""Plan: an experiment, written in Python or TOML, becomes a list of checked runs."""
