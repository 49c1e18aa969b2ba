"""Runs compared: what each measured (`measurements.py`), how much of a difference is noise (`noise.py`), limits (`limits.py`), and a baseline
that a repository keeps (`baseline.py`). Everything but `baseline.py` is pure.
"""
