"""Finds the jobs that one kind of text describes, a module each; `describe.py` above chooses by the kind."""
