"""Training and processing jobs: one thread per job, one container process per host."""
