"""The command line. One thin module per command; what is heavy is imported when a command runs."""
