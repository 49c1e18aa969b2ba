"""GPU readings as the checks see them, for tests without a machine."""

from typing import Any

from gpuproof.findings import Finding
from gpuproof.gpu.checks.states import Gpus, GpuState
from gpuproof.gpu.health import GpuHealth
from gpuproof.gpu.nvml import GpuInfo, GpuReading

GIB = 1 << 30


def gpu(index: int = 0, name: str = "NVIDIA A10G", power_limit_w: float = 300, **fields: Any) -> GpuState:
    """A GPU; `fields` belong to its reading or its health."""
    reading = {key: value for key, value in fields.items() if key in GpuReading.__dataclass_fields__}
    health = {key: value for key, value in fields.items() if key not in reading}
    info = GpuInfo(index, f"GPU-{index}", name, 24 * GIB, power_limit_w=power_limit_w)
    return GpuState(info, GpuReading(index, **reading), GpuHealth(index, **health))


def gpus(*states: GpuState) -> Gpus:
    return Gpus(states, "580.95.05")


def codes(findings: Any) -> list[str]:
    return [f"{finding.code} {finding.severity}" for finding in findings]


def text(finding: Finding) -> str:
    return " ".join([finding.message, *finding.evidence, finding.remedy or ""])
