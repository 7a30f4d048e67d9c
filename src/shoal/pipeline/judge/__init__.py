"""Judge: claims are read, figures are estimated from samples over seeds, verdicts are given."""
