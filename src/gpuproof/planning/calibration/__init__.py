"""Coefficients that are measured on the user's own GPU: `gpuproof calibrate`."""
