"""Who are my neighbours? Overlays that run as protocols on the nodes, one file each."""
