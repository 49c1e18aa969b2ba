"""How the work of a job is spread: launchers, processes and their ranks, strategies, and the GPUs that a script uses."""
