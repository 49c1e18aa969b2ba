"""One file per check, grouped by layer."""
