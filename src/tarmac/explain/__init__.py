"""Knows what error texts of drivers, CUDA, frameworks and AWS mean, and what to type next."""
