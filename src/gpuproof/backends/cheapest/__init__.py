"""`gpuproof run --on cheapest`: plans a job on several backends, on demand and with spot capacity, and chooses one by price."""
