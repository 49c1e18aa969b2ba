"""What the command line shows: console, tables, progress lines, verdicts, and following a run."""
