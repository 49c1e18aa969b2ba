"""Worker processes that load a model and compute predictions, and the frontend's side of them: queue, supervisor.

An idle worker takes what has arrived and never waits for a batch. Its shared status shows what it was computing when it died: that
request fails, the queued ones go to the replacement (`supervisor.py`, `restart_policy.py`).
"""
