"""The files that are sent with a job: which ones (`tree.py`), what is left out (`ignore_rules.py`), and which are
refused because they look like secrets (`secret_files.py`).
"""
