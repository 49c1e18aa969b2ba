"""Uncorrectable ECC errors, row remapping and page retirement."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.gpu.checks.ecc_errors import evaluate

CHECK = Check("memory errors", Layer.ENVIRONMENT, read_gpus, evaluate)
