"""Invocations of a model: of an endpoint in real time or asynchronously, and of a server on this machine.

`payload.py` reads what is sent, `real_time.py`, `asynchronous.py` and `local_server.py` send it and return a `Prediction`, and
`errors.py` explains what went wrong.
"""
