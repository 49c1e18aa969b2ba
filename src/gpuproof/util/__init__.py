"""Small tools for both halves: guard processes, human-readable values, atomic files, CSV tables, versions (host)."""
