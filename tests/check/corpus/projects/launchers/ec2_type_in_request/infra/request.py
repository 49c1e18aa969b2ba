import datetime
import os

import boto3

IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/"
    "pytorch-training:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker"
)
HYPERPARAMETERS = {
    "sagemaker_program": "train.py",
    "sagemaker_submit_directory": "s3://defects-data/code/source.tar.gz",
    "epochs": "20",
    "batch-size": "64",
}


def channel(name, uri):
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def main():
    client = boto3.client("sagemaker", region_name="us-east-1")
    name = datetime.datetime.now().strftime("defects-%Y%m%d-%H%M%S")
    client.create_training_job(
        TrainingJobName=name,
        RoleArn=os.environ["TRAINING_ROLE_ARN"],
        AlgorithmSpecification={"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        HyperParameters=HYPERPARAMETERS,
        InputDataConfig=[channel("train", "s3://defects-data/train/"), channel("test", "s3://defects-data/test/")],
        OutputDataConfig={"S3OutputPath": "s3://defects-data/models/"},
        ResourceConfig={"InstanceType": "g4dn.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 60},
        StoppingCondition={"MaxRuntimeInSeconds": 3 * 3600},
    )
    print(name)


if __name__ == "__main__":
    main()
