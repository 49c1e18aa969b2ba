"""A module beside the script."""

GREETING = "from beside"
