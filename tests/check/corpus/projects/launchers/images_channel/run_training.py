import time

import boto3
import sagemaker
from sagemaker.tensorflow import TensorFlow

session = sagemaker.Session(boto3.session.Session(region_name="us-east-2"))
name = time.strftime("receipts-%Y-%m-%d-%H-%M-%S")

estimator = TensorFlow(
    entry_point="train.py",
    source_dir="model",
    role="arn:aws:iam::555566667777:role/sm-train",
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    framework_version="2.16",
    py_version="py310",
    hyperparameters={"epochs": 30, "lr": 0.0005, "classes": 14},
    sagemaker_session=session,
    max_run=10800,
)
estimator.fit({"train": "s3://receipts-ohio/crops/"}, job_name=name)
