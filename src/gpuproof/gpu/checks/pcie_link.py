"""PCIe links of the GPUs that have fewer lanes than they should.

An idle GPU lowers the generation of its link and keeps the width, so only the width is checked here; `--full` checks the
generation under load. EC2 connects some GPUs with 8 of their 16 lanes, so fewer than the maximum is no finding by itself:
fewer than another GPU of the same model is, and fewer than 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.states import Gpus

_MIN_LANES = 8


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D630: a link narrower than that of another GPU of the same model, or than 8 lanes."""
    widest: dict[str | None, int] = {}
    for gpu in gpus.states:
        widest[gpu.info.name] = max(widest.get(gpu.info.name, 0), gpu.health.pcie_width or 0)
    for gpu in gpus.states:
        width, most = gpu.health.pcie_width, gpu.health.pcie_width_max
        if not width or not most or width >= most:
            continue
        other = widest[gpu.info.name]
        if width >= _MIN_LANES and width >= other:
            continue
        expected = f"the other GPUs have x{other}" if other > width else f"it supports x{most}"
        yield Finding(
            "D630",
            Severity.WARNING,
            f"{gpu.label} has an x{width} PCIe link, but {expected}: batches arrive more slowly.",
            (f"PCIe width x{width}, at most x{most}",),
            "Stop the instance and start it again, which moves it to other hardware; in your own machine, reseat "
            "the card and check the slot.",
            gpu.location,
        )
