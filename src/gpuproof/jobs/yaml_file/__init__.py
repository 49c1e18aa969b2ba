"""Reads a `gpuproof.yaml`: the document with its line numbers, the sections of its jobs, and the jobs."""
