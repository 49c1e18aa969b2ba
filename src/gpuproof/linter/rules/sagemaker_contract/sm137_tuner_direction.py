"""The tuner searches for the worst jobs: it maximizes a loss, or minimizes an accuracy.

`HyperparameterTuner` maximizes its objective unless `objective_type="Minimize"` is passed. With a loss it keeps the
settings with the largest one, and the whole budget of the tuning job goes to the wrong end of the ranges. The rule
reads the objective's name, and reports only names with one meaning.

Bad:

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    tuner = HyperparameterTuner(
        estimator,
        objective_metric_name="validation:loss",  # <-
        hyperparameter_ranges={"lr": ContinuousParameter(1e-5, 1e-2)},
        metric_definitions=[{"Name": "validation:loss", "Regex": "val_loss: ([0-9.]+)"}],
        max_jobs=20,
        max_parallel_jobs=4,
    )

Bad: in a request

    import boto3

    boto3.client("sagemaker").create_hyper_parameter_tuning_job(
        HyperParameterTuningJobName="search",
        HyperParameterTuningJobConfig={
            "Strategy": "Bayesian",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "val_accuracy"},  # <-
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 2},
        },
    )

Good:

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    tuner = HyperparameterTuner(
        estimator,
        objective_metric_name="validation:loss",
        objective_type="Minimize",
        hyperparameter_ranges={"lr": ContinuousParameter(1e-5, 1e-2)},
        metric_definitions=[{"Name": "validation:loss", "Regex": "val_loss: ([0-9.]+)"}],
        max_jobs=20,
        max_parallel_jobs=4,
    )

Quiet: a score of its own, and a negated loss

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    ranges = {"lr": ContinuousParameter(1e-5, 1e-2)}
    HyperparameterTuner(estimator, "validation:score", ranges, objective_type="Minimize")
    HyperparameterTuner(estimator, "neg_loss", ranges)
    HyperparameterTuner(estimator, "loss_improvement", ranges)
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "SM137",
    "tuner-direction",
    Severity.ERROR,
    needs=("HyperparameterTuner", "create_hyper_parameter_tuning_job"),
)

_LOWER = frozenset(
    [
        "loss",
        "losses",
        "error",
        "err",
        "rmse",
        "mse",
        "mae",
        "mape",
        "perplexity",
        "ppl",
        "wer",
        "cer",
        "logloss",
        "nll",
        "crossentropy",
        "fid",
    ]
)
_HIGHER = frozenset(
    [
        "accuracy",
        "acc",
        "auc",
        "auroc",
        "f1",
        "fscore",
        "precision",
        "recall",
        "map",
        "miou",
        "iou",
        "dice",
        "bleu",
        "rouge",
        "r2",
        "psnr",
        "ssim",
        "ndcg",
        "mrr",
        "top1",
        "top5",
    ]
)
_SETS = frozenset(
    [
        "train",
        "training",
        "val",
        "valid",
        "validation",
        "eval",
        "evaluation",
        "test",
        "dev",
        "holdout",
        "mean",
        "avg",
        "average",
        "macro",
        "micro",
        "weighted",
        "total",
        "final",
        "best",
        "epoch",
        "score",
        "binary",
        "cross",
        "entropy",
        "log",
        "root",
        "squared",
        "absolute",
        "mean",
        "classification",
        "objective",
        "roc",
        "pr",
        "metric",
        "at",
    ]
)
"""Words that do not change the direction of a metric."""


class _Objective(NamedTuple):
    name: Value
    direction: Value
    remedy: str


@rule.module
def check(module: Module, _: Project) -> Hits:
    for objective in _objectives(module):
        name, direction = objective.name, objective.direction
        chosen = "Maximize" if direction.is_absent else direction.text if direction.is_known else None
        if chosen is None or not name.is_known or name.text is None or name.span is None:
            continue
        wanted = _direction(name.text)
        if wanted is None or chosen.lower() == wanted.lower():
            continue
        what = "maximizes" if chosen == "Maximize" else "minimizes"
        yield rule.hit(
            name.span,
            f"The tuner {what} `{name.text}`"
            + (", which is the default" if direction.is_absent else "")
            + ": it keeps the worst jobs.",
            remedy=objective.remedy.format(wanted),
            severity=rule.severity if not direction.is_absent else lowered(rule.severity),
        )


def _objectives(module: Module) -> Iterator[_Objective]:
    if module.imports("sagemaker"):
        for tuner in calls_named(module, "HyperparameterTuner"):
            yield _Objective(
                tuner.argument("objective_metric_name", 1),
                tuner.argument("objective_type", 5),
                'Pass objective_type="{}".',
            )
    for request in calls_named(module, "create_hyper_parameter_tuning_job"):
        found = request.argument("HyperParameterTuningJobConfig").at("HyperParameterTuningJobObjective")
        yield _Objective(found.at("MetricName"), found.at("Type"), 'Set Type to "{}".')


def _direction(name: str) -> str | None:
    """`Minimize` or `Maximize` if every word of a metric's name says so or says nothing; None in doubt."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*(?![a-z])|\d+", name)]
    lower = any(word in _LOWER for word in words)
    higher = any(word in _HIGHER for word in words)
    if lower == higher or any(word not in _LOWER | _HIGHER | _SETS and not word.isdigit() for word in words):
        return None
    return "Minimize" if lower else "Maximize"
