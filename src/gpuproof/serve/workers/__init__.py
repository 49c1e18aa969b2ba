"""Worker processes: one loads the model and computes; the supervisor restarts it."""
