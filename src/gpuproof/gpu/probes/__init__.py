"""Scripts for a process of their own, in the user's interpreter or in GPUproof's: see `gpuproof.gpu.probe_process`.

They use the standard library alone and run on Python 3.9 and later; frameworks are imported here and nowhere else.
Each tells records, a line each, as soon as it knows them.
"""
