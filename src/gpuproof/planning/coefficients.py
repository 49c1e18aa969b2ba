"""What was fitted to measurements, and what data sheets leave open: `data/coefficients.json` and `data/gpu_memory.csv`."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.correction import Correction, Quantity
from gpuproof.planning.estimates import Interval, Tier
from gpuproof.util.csv_table import read_package_rows

MIB = 1 << 20
_USABLE_SHARE = 0.93
"""Of the nominal memory, for GPUs that `gpu_memory.csv` does not list: the smallest share of those that it does is 0.91."""


@dataclass(frozen=True)
class Rates:
    """How fast a GPU is at one precision, compared with its data sheet.

    Args:
        compute: share of the peak that large matrix products reach.
        bandwidth: share of the memory bandwidth that large elementwise operators reach.
        slowdown: by which factor operators of a class are slower than these two allow; 1 if a class is missing. `layout` is
            that of copies into another layout, compared with elementwise operators.
        tile_s: seconds that the start and the end of a tile of a matrix product cost.
        tier: how that is known.
        source: of the measurements.
    """

    compute: float
    bandwidth: float
    slowdown: Mapping[str, float]
    tier: Tier
    source: str = ""
    tile_s: float = 4e-6


@dataclass(frozen=True)
class Coefficients:
    """Everything that the estimates were fitted to, as JSON.

    Args:
        memory: `context_mib` by GPU (low, value and high; `default` for others), `spread` (low and high factor of what is
            reserved, 80 %).
        time: `gpus` by GPU and precision, `default` by precision, `spread` by tier, and the host's and the links' figures.
        corrections: from the user's own runs.
        calibrated: names of the GPUs that the user calibrated.
    """

    memory: Mapping[str, Any]
    time: Mapping[str, Any]
    corrections: tuple[Correction, ...] = ()
    calibrated: tuple[str, ...] = ()

    def context(self, gpu: str, cuda: str | None = None) -> Interval:
        """Bytes of the CUDA context, libraries and workspaces outside PyTorch's segments.

        Args:
            gpu: of the catalogue.
            cuda: such as `12.8`; recent if unknown. Before 11.7, kernels were loaded when the context was made.
        """
        table = self.memory["context_mib"]
        eager = cuda is not None and tuple(map(int, cuda.split(".")[:2])) < (11, 7)
        low, value, high = table.get(gpu) or table["default"]
        if eager:
            low, value, high = table["before-cuda-11.7"]
        return Interval(low * MIB, value * MIB, high * MIB)

    def rates(self, gpu: str, precision: str) -> Rates:
        """A GPU's rates; those that are typical if nothing was measured on it.

        Args:
            gpu: of the catalogue.
            precision: `float32`, `tf32` or `half`.
        """
        default = self.time["default"][precision]
        own = self.time["gpus"].get(gpu, {}).get(precision, {})
        return Rates(
            own.get("compute", default["compute"]),
            own.get("bandwidth", default["bandwidth"]),
            {**default["slowdown"], **own.get("slowdown", {})},
            cast("Tier", own.get("tier", "data-sheet")),
            own.get("source", default.get("source", "")),
            own.get("tile_s", Rates.tile_s),
        )

    def spread(self, tier: Tier) -> tuple[float, float]:
        """Factors of the estimate between which 80 % of the measured step times are."""
        low, high = self.time["spread"][tier]
        return low, high

    def corrected(
        self, quantity: Quantity, estimate: Interval, gpu: str, tier: Tier | None = None
    ) -> Interval:
        """An estimate as the user's own runs on this GPU correct it, or else those of all GPUs (of this tier)."""
        known = {
            correction.gpu: correction
            for correction in self.corrections
            if (correction.quantity, correction.tier) == (quantity, tier)
        }
        found = known.get(gpu) or known.get(None)
        return estimate if found is None else found.applied(estimate)

    def merged(self, other: Mapping[str, Any]) -> Coefficients:
        """With those that were measured elsewhere, in the same format; they take precedence.

        Args:
            other: a document with the members `memory` and `time`, each optional.
        """
        return replace(
            self,
            memory=_merged(self.memory, other.get("memory", {})),
            time=_merged(self.time, other.get("time", {})),
        )


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for name, value in new.items():
        known = result.get(name)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        result[name] = _merged(cast("Any", known), cast("Any", value)) if both else value
    return result


@cache
def builtin_coefficients() -> Coefficients:
    """Those that GPUproof has."""
    content = pkgutil.get_data("gpuproof.planning", "data/coefficients.json")
    if content is None:
        raise FileNotFoundError("gpuproof.planning has no data/coefficients.json")
    document = json.loads(content)
    return Coefficients(document["memory"], document["time"])


@cache
def _measured_totals() -> dict[str, int]:
    rows = read_package_rows("gpuproof.planning", "data/gpu_memory.csv")
    return {row["gpu"]: int(row["total_mib"]) * MIB for row in rows}


def usable_memory(gpu: Gpu, fraction: float = 1.0) -> int:
    """Bytes that CUDA reports as total, which is what processes and their contexts can have.

    Args:
        gpu: of the catalogue.
        fraction: the share of it that an instance has (`Instance.fraction`).
    """
    measured = _measured_totals().get(gpu.name)
    nominal = gpu.memory_gb * (1 << 30)
    return int((measured or nominal * _USABLE_SHARE) * fraction)
