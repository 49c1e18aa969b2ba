"""Training and processing jobs: one thread for each job, one container process for each host."""
