"""Scripts that run in their own process, in the user's interpreter or in GPUproof's: see `gpuproof.gpu.probe_process`.

They need only the standard library and Python 3.9 or later; only they import frameworks. Each emits its records as soon as
it has them.
"""
