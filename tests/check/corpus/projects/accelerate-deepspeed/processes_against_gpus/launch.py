from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="start.sh",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Distill",
    framework_version="2.5",
    py_version="py311",
    instance_type="ml.g5.2xlarge",
    instance_count=1,
    max_run=6 * 3600,
).fit({"pairs": "s3://distill-123456789012/pairs/"})
