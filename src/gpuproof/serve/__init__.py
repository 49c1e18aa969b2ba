"""Model server with SageMaker's contract: `/ping`, `/invocations` and the handler's functions. Host code.

A frontend process handles HTTP (`frontend`); worker processes load the model and call the user's functions (`workers`,
`model`). Nothing here imports client code.
"""
