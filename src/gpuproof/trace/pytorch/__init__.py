"""Traces PyTorch scripts on the CPU.

Tensors on the GPU are `FakeTensor`s whose physical device is the CPU; tensors on the host are real. `fake_gpu.py` answers every call of
the script that names a device, `operators.py` records each operator, `recorder.py` each allocation.
"""
