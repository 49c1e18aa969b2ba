"""Multi-Instance GPU (MIG)."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.gpu.checks.mig import evaluate

CHECK = Check("MIG", Layer.ENVIRONMENT, read_gpus, evaluate)
