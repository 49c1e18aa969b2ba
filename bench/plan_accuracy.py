"""How accurate the estimates of `gpuproof plan` are: `python bench/plan_accuracy.py MEASUREMENTS TRACES [--write]`.

MEASUREMENTS is a folder of tables that others published (`bench/plan/tables.py` names them), which are not part of this repository.
TRACES is what `bench/plan/traces.py` wrote. Everything is cross-validated: a model is predicted with what was fitted on others.
Prints the figures and writes them to `bench/results/plan_accuracy.json`; with `--write`, the limits of the intervals and the
coefficients of memory go into `coefficients.json`. Run `bench/plan/fit.py` first, which writes those of time.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from bench.plan import tables  # noqa: E402
from bench.plan.fit import NEUSIGHT, OUTPUT, rows_of  # noqa: E402
from bench.plan.launches import launch_accuracy, measured_launches  # noqa: E402
from bench.plan.measured_steps import measured_steps  # noqa: E402
from bench.plan.memory_accuracy import fit_memory, memory_accuracy, peaks  # noqa: E402
from bench.plan.ranking import ranking_accuracy  # noqa: E402
from bench.plan.time_accuracy import (  # noqa: E402
    anchored,
    operator_accuracy,
    predictions,
    spreads,
    stricter,
    time_accuracy,
)

from gpuproof.catalogue import Catalogue  # noqa: E402
from gpuproof.planning.coefficients import builtin_coefficients  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "plan_accuracy.json"


def main() -> int:
    """Measure; 0 also where there are no tables, because they are optional."""
    parser = argparse.ArgumentParser()
    parser.add_argument("measurements", type=Path, nargs="?")
    parser.add_argument("traces", type=Path, nargs="?")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.measurements is None or options.traces is None:
        print("plan_accuracy: give the folders of the measured tables and of the traces; see its docstring")
        return 0
    memory = peaks(options.measurements, options.traces)
    rows = rows_of(measured_steps(options.measurements, options.traces))
    pairs = predictions(rows)
    if options.write:
        document = json.loads(OUTPUT.read_text())
        fitted = fit_memory(memory)
        document["memory"]["context_mib"] |= fitted["context_mib"]
        document["memory"]["spread"] = fitted["spread"]
        document["time"]["spread"] = spreads(pairs)
        OUTPUT.write_text(json.dumps(document, indent=1) + "\n")
        builtin_coefficients.cache_clear()
    catalogue = Catalogue.load()
    gpus = catalogue.tables.gpus
    devices = {
        device: gpus[name]._replace(fp32_tflops=peak, bandwidth=float(bandwidth))
        for device, (name, peak, bandwidth) in NEUSIGHT.items()
    }
    result = {
        "memory": memory_accuracy(memory),
        "step_time": time_accuracy(
            {**pairs, "data-sheet with one measured step": anchored(pairs["data-sheet"]), **stricter(rows)}
        ),
        "ranking": ranking_accuracy(rows, catalogue),
        "launches": launch_accuracy(measured_launches(options.measurements, options.traces)),
        "operators": operator_accuracy(
            tables.neusight(options.measurements), devices, builtin_coefficients()
        ),
    }
    text = json.dumps(result, indent=1)
    RESULTS.write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
