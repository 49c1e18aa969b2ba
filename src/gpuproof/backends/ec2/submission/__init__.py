"""Executes a plan: all instances, or nothing; what EC2 refuses in one zone or type is tried in the next."""
