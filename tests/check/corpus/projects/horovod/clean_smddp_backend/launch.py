from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Smddp",
    framework_version="2.2.0",
    py_version="py310",
    instance_count=2,
    instance_type="ml.p4d.24xlarge",
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
    hyperparameters={"epochs": 4, "batch-size": 32},
    max_run=7200,
).fit({"tiles": "s3://maps-123456789012/tiles"})
