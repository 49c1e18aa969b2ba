"""Which Python scripts a command starts: through launchers, shell scripts, Makefiles and Dockerfiles."""

ALL_ARGUMENTS = "$@"
"""The word that stands for arguments that only the caller of a shell script knows."""
