"""What follows from a verdict and other facts: a smaller instance type that suffices, and how well a job scales.

Everything here is pure except for `report.py`, which looks up the facts.
"""
