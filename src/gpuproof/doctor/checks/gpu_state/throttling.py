"""Clocks lowered by heat or hardware, and a power limit below the default."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.gpu.checks.throttling import evaluate

CHECK = Check("throttling", Layer.ENVIRONMENT, read_gpus, evaluate)
