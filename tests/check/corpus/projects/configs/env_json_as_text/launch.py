from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Shells",
    framework_version="2.4",
    py_version="py311",
    instance_type="ml.g5.xlarge",
    instance_count=1,
    environment={
        "BLOCKS": "[64, 128, 256",
        "AUGMENT": "yes",
    },
).fit({"shells": "s3://shells-123456789012/photos"})
