"""Finds the jobs that files describe, as `JobDefinition`s, and links each to its script."""
