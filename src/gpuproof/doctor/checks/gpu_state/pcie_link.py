"""The PCIe link of each GPU: lanes that are missing.

An idle GPU lowers its link's generation and keeps its width, so only the width is judged here; `--full` looks at the
generation under load. EC2 wires some GPUs with 8 of the 16 lanes that they could use, so fewer than the most is not
wrong in itself: a GPU with fewer than its like beside it is, and so is one with under 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.readings.gpus import Gpus, read_gpus
from gpuproof.findings import Finding, Severity

_FEWEST_LANES = 8


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D630: a link narrower than those of the GPUs beside it, or than any GPU is meant to have."""
    widest: dict[str | None, int] = {}
    for gpu in gpus.states:
        widest[gpu.info.name] = max(widest.get(gpu.info.name, 0), gpu.health.pcie_width or 0)
    for gpu in gpus.states:
        width, most = gpu.health.pcie_width, gpu.health.pcie_width_max
        if not width or not most or width >= most:
            continue
        beside = widest[gpu.info.name]
        if width >= _FEWEST_LANES and width >= beside:
            continue
        than = f"its neighbours have x{beside}" if beside > width else f"it could have x{most}"
        yield Finding(
            "D630",
            Severity.WARNING,
            f"{gpu.label} is linked by x{width} PCIe lanes where {than}: batches reach it more slowly.",
            (f"PCIe width x{width}, at most x{most}",),
            "Stop the instance and start it again, which moves it to other hardware; in a machine of your own, reseat "
            "the card and look at the slot.",
            gpu.location,
        )


CHECK = Check("PCIe links", Layer.ENVIRONMENT, read_gpus, evaluate)
