"""Traces PyTorch scripts on the CPU.

Tensors on the GPU are `FakeTensor`s, which have a shape and no memory; tensors on the host are real. Parameters are fake from their
creation, so that a model of any size is built in seconds.

- `fake_gpu.py` (a torch function mode), `cuda_functions.py`, `distributed.py`, `amp.py` and `modules.py` answer every question about
  devices. A value that only a GPU would know is assumed, and the assumption is noted with the line of the script.
- `operators/` (a dispatch mode) records each operator that runs on the GPU with its class, FLOPs and traffic.
- `recorder.py` keeps allocations and frees in their order, which follows from Python's own references.
- `steps/` finds where a step ends, also without an optimizer. Of FSDP, the model stays whole, and `fsdp.py` records the units.
"""
