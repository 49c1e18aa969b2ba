from sagemaker.huggingface import HuggingFace

HuggingFace(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Adapters",
    instance_type="ml.g5.2xlarge",
    instance_count=1,
    transformers_version="4.46.1",
    pytorch_version="2.3.0",
    py_version="py311",
    max_run=6 * 3600,
).fit({"chats": "s3://chats-123456789012/v1"})
