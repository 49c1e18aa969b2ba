"""python submit.py --profile research"""
import argparse

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch


def submit(profile):
    session = sagemaker.Session(boto_session=boto3.Session(profile_name=profile, region_name="us-east-1"))
    PyTorch(
        entry_point="train.py",
        source_dir="src",
        role="arn:aws:iam::666677778888:role/research-training",
        instance_count=1,
        instance_type="ml.g5.2xlarge",
        framework_version="2.3.0",
        py_version="py311",
        sagemaker_session=session,
        hyperparameters={"epochs": 50},
        max_run=86400,
    ).fit({"train": "s3://pathology-tiles/train"}, wait=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", default="default")
    submit(parser.parse_args().profile)
