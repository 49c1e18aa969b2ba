from sagemaker.huggingface import HuggingFace

HuggingFace(
    entry_point="run_clm.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Clm",
    instance_type="ml.g5.12xlarge",
    instance_count=1,
    transformers_version="4.46.1",
    pytorch_version="2.3.0",
    py_version="py311",
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"epochs": 2},
).fit({"text": "s3://corpora-123456789012/legal"})
