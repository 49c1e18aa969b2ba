"""Reads what an account has: a module for each group of resources, and `scan`, which reads all regions at the same time."""
