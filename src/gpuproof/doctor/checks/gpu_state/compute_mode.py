"""Compute mode, which limits the processes on a GPU, and persistence mode."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.gpu.checks.compute_mode import evaluate

CHECK = Check("GPU modes", Layer.ENVIRONMENT, read_gpus, evaluate)
