"""Faults on request: what they match, how they answer, and validation."""
