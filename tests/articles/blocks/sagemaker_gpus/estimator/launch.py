import sagemaker
from sagemaker.tensorflow import TensorFlow

job = TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role=sagemaker.get_execution_role(),
    instance_count=1,
    instance_type="ml.p3.2xlarge",
    framework_version="2.11",
    py_version="py39",
    distribution={"parameter_server": {"enabled": True}},
    hyperparameters={"epochs": 50, "batch_size": 32, "learning_rate": 0.001},
)
job.fit({"training": "s3://example-bucket/train"})
