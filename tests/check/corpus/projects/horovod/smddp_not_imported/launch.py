from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py",
    source_dir=".",
    role="arn:aws:iam::123456789012:role/Captions",
    framework_version="2.0.1",
    py_version="py310",
    instance_count=2,
    instance_type="ml.p4d.24xlarge",
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
).fit({"coco": "s3://captions-123456789012/coco"})
