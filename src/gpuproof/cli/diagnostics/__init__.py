"""Commands that look for problems: `check`, `rule`, `doctor`, `explain`."""
