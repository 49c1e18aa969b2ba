"""A tuner's objective is not a metric that its training jobs define: SageMaker rejects the tuning job.

A container with a script has no metrics of its own: the tuner or the estimator defines them by regular expressions.
CreateHyperParameterTuningJob raises ValidationException if `objective_metric_name` is not one of their names.

Bad: another name

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge")
    tuner = HyperparameterTuner(
        estimator,
        objective_metric_name="validation:loss",  # <-
        hyperparameter_ranges={"lr": ContinuousParameter(0.001, 0.1)},
        metric_definitions=[{"Name": "val_loss", "Regex": "val_loss=([0-9.]+)"}],
    )
    tuner.fit()

Bad: no metrics

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge")
    tuner = HyperparameterTuner(estimator, "loss", {"lr": ContinuousParameter(0.001, 0.1)})  # <-
    tuner.fit()

Good:

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    tuner = HyperparameterTuner(
        estimator,
        objective_metric_name="val_loss",
        objective_type="Minimize",
        hyperparameter_ranges={"lr": ContinuousParameter(0.001, 0.1)},
        metric_definitions=[{"Name": "val_loss", "Regex": "val_loss=([0-9.]+)"}],
    )
    tuner.fit()

Quiet: the metrics of a built-in algorithm

    from sagemaker.estimator import Estimator
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = Estimator(image_uri=image, role=role, instance_count=1, instance_type="ml.m5.xlarge")
    tuner = HyperparameterTuner(estimator, "validation:auc", {"eta": ContinuousParameter(0.1, 0.5)})

Quiet: the estimator defines them

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    )
    tuner = HyperparameterTuner(estimator, "loss", {"lr": ContinuousParameter(0.001, 0.1)})
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.readers.sdk_v2 import FRAMEWORKS
from gpuproof.linter.jobs.tuned_hyperparameters import tuners
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM130", "tuner-metric-undefined", Severity.ERROR, needs=("HyperparameterTuner",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    for tuner, estimator in tuners(module):
        objective = tuner.argument("objective_metric_name", 1)
        if not objective.is_known or objective.text is None or objective.span is None:
            continue
        defined = tuner.argument("metric_definitions", 3)
        if defined.is_unset:
            defined = estimator.argument("metric_definitions")
        # Images of XGBoost and Scikit-learn have programs of their own if there is no script.
        has_script = FRAMEWORKS.get(estimator.method) not in (None, "xgboost", "sklearn")
        if defined.is_unset:
            if has_script and (estimator.name or "").startswith("sagemaker."):
                yield rule.hit(
                    objective.span,
                    f"Neither the tuner nor the estimator defines the metric `{objective.text}`: SageMaker rejects the tuning "
                    "job.",
                    remedy=f'Pass metric_definitions=[{{"Name": "{objective.text}", "Regex": "...([0-9.]+)"}}] to the tuner.',
                )
            continue
        names = [item.at("Name") for item in defined.items or ()]
        texts = [name.text for name in names]
        if names and all(name.is_known for name in names) and objective.text not in texts:
            yield rule.hit(
                objective.span,
                f"The objective `{objective.text}` is not among the metrics that the job defines "
                f"({', '.join(f'`{text}`' for text in texts)}): SageMaker rejects the tuning job.",
                remedy=f"Use one of these names, or define a metric with the name {objective.text}.",
            )
