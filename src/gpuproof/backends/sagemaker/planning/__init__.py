"""Decisions made before anything is created: instance type, image, role, bucket, checkpoints to resume from."""
