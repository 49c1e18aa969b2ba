"""Serves a model as SageMaker expects it: `/ping`, `/invocations`, the handler's four functions (on board).

A front process speaks HTTP (`app`, `core`, `supervisor`); predictor processes alone load the model and call the user's
functions (`predictor`, `handler`). Nothing here imports the ground half.
"""
