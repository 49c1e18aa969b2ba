import os

from sagemaker.pytorch import PyTorchModel
from sagemaker.serverless import ServerlessInferenceConfig

model = PyTorchModel(
    model_data="s3://recsys-artifacts/rec/model.tar.gz",
    role=os.environ["SAGEMAKER_ROLE"],
    entry_point="handler.py",
    framework_version="2.3.0",
    py_version="py311",
)

if os.environ.get("SERVERLESS"):
    model.deploy(serverless_inference_config=ServerlessInferenceConfig(memory_size_in_mb=3072, max_concurrency=5))
else:
    model.deploy(initial_instance_count=1, instance_type="ml.m5.large")
