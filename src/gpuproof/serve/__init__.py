"""Model server with SageMaker's contract: `/ping`, `/invocations` and the handler's functions. Host code.

A frontend process handles HTTP (`http/`, `frontend/`) and never runs user code, so `/ping`, deadlines and shutdown work whatever a
handler does. Worker processes load the model and call the user's functions (`workers/`, `model/`, with `frameworks/` as the
defaults); `codecs/` read and write bodies, never pickles. Nothing here imports client code.
"""
