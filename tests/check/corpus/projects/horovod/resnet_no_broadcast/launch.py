from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/HvdTraining",
    framework_version="1.12.1",
    py_version="py38",
    instance_count=2,
    instance_type="ml.g4dn.12xlarge",
    distribution={"mpi": {"enabled": True, "processes_per_host": 4}},
    hyperparameters={"epochs": 30},
)
estimator.fit({"train": "s3://plants-123456789012/train"})
