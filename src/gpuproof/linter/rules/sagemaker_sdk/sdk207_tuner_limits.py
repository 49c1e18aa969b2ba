"""A tuning job has a range or a limit that SageMaker rejects.

The smallest value of a range must be below the largest, a logarithmic scale needs values above 0, a reverse logarithmic
one values from 0 to below 1, and no more jobs can run in parallel than there are in all. CreateHyperParameterTuningJob
returns a ValidationException.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-define-ranges.html, 2026-11-29.

Bad: the ends of a range

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner, IntegerParameter

    ranges = {
        "lr": ContinuousParameter(0.1, 0.0001),  # <-
        "dropout": ContinuousParameter(0.0, 0.5, scaling_type="Logarithmic"),  # <-
        "layers": IntegerParameter(2, 8),
    }
    HyperparameterTuner(
        estimator, "loss", ranges, objective_type="Minimize", max_jobs=20, max_parallel_jobs=4,
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    )

Bad: more jobs at once than in all

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    HyperparameterTuner(
        estimator, "loss", {"lr": ContinuousParameter(0.0001, 0.1)}, objective_type="Minimize",
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
        max_jobs=4, max_parallel_jobs=8,  # <-
    )

Good:

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    HyperparameterTuner(
        estimator, "loss", {"lr": ContinuousParameter(0.0001, 0.1, scaling_type="Logarithmic")},
        objective_type="Minimize", metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
        max_jobs=20, max_parallel_jobs=4,
    )

Quiet: numbers that are not known

    from settings import LIMITS
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    low, high = LIMITS
    HyperparameterTuner(
        estimator, "loss", {"lr": ContinuousParameter(low, high)}, objective_type="Minimize",
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SDK207", "tuner-limits", Severity.ERROR, needs=("sagemaker.tuner", "sagemaker.parameter"))

_HOMES = ("sagemaker.tuner", "sagemaker.parameter", "sagemaker.core.parameter")


@rule.module
def check(module: Module, _: Project) -> Hits:
    for kind in ("ContinuousParameter", "IntegerParameter"):
        for call in calls_to(module, *(f"{home}.{kind}" for home in _HOMES)):
            problem = _problem(call)
            if problem is not None:
                yield rule.hit(
                    call.span, f"{problem[0]}: SageMaker rejects the tuning job.", remedy=problem[1]
                )
    if not module.imports("sagemaker"):
        return
    for tuner in calls_named(module, "HyperparameterTuner"):
        most, parallel = tuner.argument("max_jobs", 6), tuner.argument("max_parallel_jobs", 7)
        jobs = most.number if most.is_known else None
        at_once = parallel.number if parallel.is_known else None
        if jobs is None or at_once is None or at_once <= jobs:
            continue
        yield rule.hit(
            parallel.span or tuner.span,
            f"{at_once} jobs at once are more than {jobs} in all: SageMaker rejects the tuning job.",
            remedy=f"Pass max_parallel_jobs={jobs} or less, or a larger max_jobs.",
        )


def _problem(call: Call) -> tuple[str, str] | None:
    """What is wrong with a range, and what to do."""
    low, high = call.argument("min_value", 0), call.argument("max_value", 1)
    if not low.is_known or not high.is_known or low.number is None or high.number is None:
        return None
    scale = call.argument("scaling_type", 2).text
    if low.number > high.number:
        return f"The range from {low.number} to {high.number} is reversed", "Pass the smaller value first."
    if scale == "Logarithmic" and low.number <= 0:
        return f"A logarithmic range cannot start at {low.number}", "Start above 0, or use another scale."
    if scale == "ReverseLogarithmic" and (low.number < 0 or high.number >= 1):
        return "A reverse logarithmic range must be within [0, 1)", "Use values below 1, or another scale."
    return None
