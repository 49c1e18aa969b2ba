"""Commands about runs: `run`, `ps`, `show`, `logs`, `stop`, `wait`, `pull`, `rm`."""
