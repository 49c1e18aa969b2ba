"""Text for the terminal: styles, tables, the console with its progress line, and the verdict.

Knows nothing of runs or backends, so that `doctor`, `check` and `explain` can use it too.
"""
