"""Worker processes that load a model and compute predictions, and the frontend's side of them: queue, supervisor."""
