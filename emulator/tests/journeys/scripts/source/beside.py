"""A module in the script's folder."""

GREETING = "from beside"
