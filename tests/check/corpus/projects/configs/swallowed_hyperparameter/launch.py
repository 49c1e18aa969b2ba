from sagemaker.pytorch import PyTorch
from sagemaker.tuner import CategoricalParameter, HyperparameterTuner

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Tuning",
    framework_version="2.5",
    py_version="py311",
    instance_type="ml.g5.xlarge",
    instance_count=1,
    hyperparameters={
        "epochs": 12,
        "learning-rate": 0.0005,
    },
    max_run=3600,
)
tuner = HyperparameterTuner(
    estimator,
    objective_metric_name="accuracy",
    hyperparameter_ranges={"width": CategoricalParameter([64, 128, 256])},
    metric_definitions=[
        {
            "Name": "accuracy",
            "Regex": "validation accuracy = (.*)",
        }
    ],
    max_jobs=3,
    max_parallel_jobs=1,
    early_stopping_type="Auto",
)
tuner.fit({"train": "s3://gestures-123456789012/train", "test": "s3://gestures-123456789012/test"})
