"""Predicts memory, time and cost of a job on each GPU, from a trace of its script (`gpuproof.trace`)."""
