import boto3
import sagemaker
from sagemaker.estimator import Estimator

session = sagemaker.Session(boto3.Session(region_name="eu-west-1"))
estimator = Estimator(
    image_uri="763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker",
    entry_point="main.py",
    source_dir="net",
    role="arn:aws:iam::888899990000:role/Vision",
    instance_count=1,
    instance_type="ml.c5.4xlarge",
    sagemaker_session=session,
    metric_definitions=[{"Name": "accuracy", "Regex": r"val_acc=([0-9.]+)"}],
    max_run=5 * 3600,
)
estimator.fit({"train": "s3://vision-eu/train", "valid": "s3://vision-eu/valid"})
