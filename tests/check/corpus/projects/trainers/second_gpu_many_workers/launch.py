from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="run.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Litter",
    framework_version="2.4",
    py_version="py311",
    instance_type="ml.g5.xlarge",
    instance_count=1,
).fit({"photos": "s3://litter-123456789012/photos"})
