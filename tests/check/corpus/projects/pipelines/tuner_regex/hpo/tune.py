import os
from pathlib import Path

from sagemaker.pytorch import PyTorch
from sagemaker.tuner import CategoricalParameter, ContinuousParameter, HyperparameterTuner

SOURCE = Path(__file__).resolve().parents[1] / "training"

estimator = PyTorch(
    entry_point="train.py",
    source_dir=str(SOURCE),
    role=os.environ["SM_ROLE_ARN"],
    framework_version="2.3.0",
    py_version="py311",
    instance_count=1,
    instance_type="ml.g4dn.xlarge",
    hyperparameters={"epochs": 15},
    max_run=3600,
)
tuner = HyperparameterTuner(
    estimator,
    objective_metric_name="val_loss",
    objective_type="Minimize",
    metric_definitions=[{"Name": "val_loss", "Regex": r"validation loss: ([0-9\.]+)"}],
    hyperparameter_ranges={
        "lr": ContinuousParameter(1e-5, 1e-2, scaling_type="Logarithmic"),
        "batch-size": CategoricalParameter([64, 128, 256]),
        "weight-decay": ContinuousParameter(0, 0.1),
    },
    max_jobs=24,
    max_parallel_jobs=4,
    early_stopping_type="Auto",
)
tuner.fit({"train": "s3://churn-sequences/train", "valid": "s3://churn-sequences/valid"})
print(tuner.best_training_job())
