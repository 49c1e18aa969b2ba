from sagemaker.huggingface import HuggingFace

HuggingFace(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::123456789012:role/Zero",
    instance_type="ml.p4d.24xlarge",
    instance_count=1,
    transformers_version="4.46.1",
    pytorch_version="2.3.0",
    py_version="py311",
    distribution={"torch_distributed": {"enabled": True}},
    hyperparameters={"model_id": "Qwen/Qwen2.5-7B", "epochs": 1},
    max_run=10 * 3600,
).fit({"train": "s3://tuning-123456789012/train"})
