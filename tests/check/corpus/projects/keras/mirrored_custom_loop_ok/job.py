import os

from sagemaker.tensorflow import TensorFlow

TensorFlow(
    entry_point="dist_train.py",
    role=os.environ["ROLE_ARN"],
    framework_version="2.16",
    py_version="py310",
    instance_count=1,
    instance_type="ml.g5.12xlarge",
    hyperparameters={"epochs": 20},
    max_run=4 * 3600,
).fit({"train": "s3://document-vectors/train/"})
