"""Commands about runs: `run`, `ps`, `show`, `logs`, `shell`, `stop`, `wait`, `pull`, `rm`."""
