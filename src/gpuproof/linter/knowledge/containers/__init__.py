"""What containers contain and do: public images, packages that a Dockerfile installs, and the jobs that use it."""
