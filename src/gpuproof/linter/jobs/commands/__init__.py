"""Which Python scripts a command starts: through launchers, shell scripts, Makefiles and Dockerfiles."""
