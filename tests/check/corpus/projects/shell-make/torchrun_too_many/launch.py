from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="run.sh",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Coral",
    framework_version="2.5",
    py_version="py311",
    instance_type="ml.g5.12xlarge",
    instance_count=1,
)
estimator.fit({"coral": "s3://coral-123456789012/quadrats"})
