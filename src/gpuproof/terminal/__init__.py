"""Text for the terminal: styles, tables and the verdict.

Host code: the agent file prints verdicts too. Knows nothing of runs or backends.
"""
