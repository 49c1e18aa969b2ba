import os

from sagemaker.tensorflow import TensorFlow

TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role=os.environ["SAGEMAKER_ROLE"],
    instance_count=1,
    instance_type="ml.g6.2xlarge",
    framework_version="2.18",
    py_version="py310",
    hyperparameters={"epochs": 60},
    max_run=6 * 3600,
).fit({"tiles": "s3://satellite-roofs/tiles/"})
