"""Fault injection: which requests and jobs a fault matches, the errors that it causes, and validation."""
