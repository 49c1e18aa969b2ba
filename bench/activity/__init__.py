"""Programs that keep a GPU busy in known ways, and what a verdict must say of each; `bench/gpu_activity.py` runs them."""
