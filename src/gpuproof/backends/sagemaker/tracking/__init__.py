"""Follows a submitted job: description and tags, logs, results, verdict, cost."""
