"""Coefficients that are measured on the user's own GPU: `gpuproof calibrate`.

`measure_gpu.py` runs alone, in the user's interpreter, and is also the script that is traced. `fitting.py` is pure; `regression.py` is
shared with the bench; `history/user_coefficients.py` merges what is stored. `bench/gpu_truth.py` compares plans with 15 other models
before and after a calibration; it needs a GPU.
"""
