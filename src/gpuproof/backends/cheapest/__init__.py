"""`gpuproof run --on cheapest`: plans a job on several backends, on demand and with spot capacity, and chooses one by price.

It is no backend: it compares `Plan.offer`, and the best backend and its plan go to the code that submits any other. If the instance types
differ, `app/instance_choice.py` predicts the cost of the whole job with `planning/`, which `backends/` does not import.
"""
