"""Report: one self-contained HTML page with figures and the verdict on every claim."""
