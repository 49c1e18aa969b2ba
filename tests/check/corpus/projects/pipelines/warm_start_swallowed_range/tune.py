import argparse
import os

from sagemaker.pytorch import PyTorch
from sagemaker.tuner import ContinuousParameter, HyperparameterTuner, IntegerParameter, WarmStartConfig, WarmStartTypes


def build(role, parents):
    estimator = PyTorch(
        entry_point="fit.py",
        source_dir="code",
        role=role,
        framework_version="2.3.0",
        py_version="py311",
        instance_count=1,
        instance_type="ml.g4dn.xlarge",
        hyperparameters={"epochs": 25, "patience": 4},
        max_run=2 * 3600,
    )
    warm = WarmStartConfig(WarmStartTypes.IDENTICAL_DATA_AND_ALGORITHM, parents=set(parents)) if parents else None
    return HyperparameterTuner(
        estimator,
        "valid:auc",
        {"lr": ContinuousParameter(1e-5, 1e-2), "hidden": IntegerParameter(64, 1024), "dropout": ContinuousParameter(0, 0.6)},
        metric_definitions=[{"Name": "valid:auc", "Regex": "valid_auc ([0-9.]+)"}],
        objective_type="Maximize",
        max_jobs=30,
        max_parallel_jobs=3,
        early_stopping_type="Auto",
        warm_start_config=warm,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--parents", nargs="*", default=[])
    args = parser.parse_args()
    build(os.environ["ROLE_ARN"], args.parents).fit({"data": "s3://fraud-graph/tabular/"}, wait=False)
