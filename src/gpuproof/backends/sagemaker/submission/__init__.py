"""Executes a plan call by call, rolls back on failure, and falls back to the next instance type."""
