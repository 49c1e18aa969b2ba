"""Writes `src/gpuproof/agent/verdict/data/peak_flops.csv`: the peaks of NVIDIA's GPUs by their names, from the catalogue.

python tools/build_peak_flops.py          # write it
python tools/build_peak_flops.py --check  # exit 1 if it is not current
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from build_cli_docs import write_or_check

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu

FILE = Path(__file__).resolve().parent.parent / "src/gpuproof/agent/verdict/data/peak_flops.csv"
HEADER = "gpu,float32,tf32,float16,bfloat16,float8"


def main() -> int:
    """Write, or with --check compare."""
    return write_or_check(FILE, text(), __doc__)


def text() -> str:
    """A row for each name, in lower case and without the brand; names of GPUs with different peaks are left out."""
    found: dict[str, set[str]] = {}
    for gpu in Catalogue.load().tables.gpus.values():
        if gpu.vendor == "NVIDIA":
            for name in (gpu.name, *gpu.aliases):
                key = re.sub(r"^(nvidia |tesla )+", "", name.lower())
                found.setdefault(key, set()).add(_peaks(gpu))
    rows = [f"{name},{peaks.pop()}" for name, peaks in found.items() if len(peaks) == 1]
    return "\n".join((HEADER, *rows)) + "\n"


def _peaks(gpu: Gpu) -> str:
    """Dense peaks in TFLOP/s: the catalogue has none of NVIDIA's sparse figures."""
    peaks = (gpu.fp32_tflops, gpu.tf32_tflops, gpu.fp16_tflops, gpu.bf16_tflops, gpu.fp8_tflops)
    return ",".join("" if peak is None else f"{peak:g}" for peak in peaks)


if __name__ == "__main__":
    sys.exit(main())
