"""What a script does in a training step, and before the first one.

`training_steps.py` finds where a step ends, also without an optimizer; `repeated_calls.py` repeats calls without gradients, which
precede it; `trained_parameters.py` knows which parameters are trained.
"""
