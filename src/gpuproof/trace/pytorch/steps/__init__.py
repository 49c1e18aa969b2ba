"""What a script does in a training step, and before the first one.

`training_steps.py` finds where a step ends, also without an optimizer, and `trained_parameters.py` which parameters it trains. Before the
training, `repeated_calls.py` repeats calls without gradients, and `rate_search.py` recognises steps that only search a learning rate.
"""
