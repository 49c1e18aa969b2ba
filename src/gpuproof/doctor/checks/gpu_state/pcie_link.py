"""PCIe links of the GPUs that have fewer lanes than they should."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.gpu.checks.pcie_link import evaluate

CHECK = Check("PCIe links", Layer.ENVIRONMENT, read_gpus, evaluate)
