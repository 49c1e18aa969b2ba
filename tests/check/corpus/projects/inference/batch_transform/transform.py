import os

from sagemaker.pytorch import PyTorchModel

model = PyTorchModel(
    model_data="s3://bird-audio/models/model.tar.gz",
    role=os.environ["ROLE"],
    entry_point="infer.py",
    source_dir="src",
    framework_version="2.3.0",
    py_version="py311",
)
transformer = model.transformer(
    instance_count=1,
    instance_type="ml.g5.xlarge",
    output_path="s3://bird-audio/predictions/",
    strategy="SingleRecord",
    max_payload=20,
)
transformer.transform("s3://bird-audio/clips/", content_type="application/octet-stream", wait=True)
