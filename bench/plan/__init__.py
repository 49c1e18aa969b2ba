"""Measurements and traces on which the estimates of `gpuproof plan` are fitted and judged."""
