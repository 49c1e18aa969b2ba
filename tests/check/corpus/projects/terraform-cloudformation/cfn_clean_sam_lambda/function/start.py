import os
import time

import boto3

sagemaker = boto3.client("sagemaker")


def handler(event, context):
    name = f"vines-{int(time.time())}"
    sagemaker.create_training_job(
        TrainingJobName=name,
        RoleArn=os.environ["ROLE_ARN"],
        AlgorithmSpecification={"TrainingImage": os.environ["IMAGE"], "TrainingInputMode": "FastFile"},
        InputDataConfig=[
            {
                "ChannelName": "photos",
                "DataSource": {
                    "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://vines-data/photos"}
                },
            }
        ],
        OutputDataConfig={"S3OutputPath": "s3://vines-data/models"},
        ResourceConfig={
            "InstanceType": os.environ["INSTANCE_TYPE"],
            "InstanceCount": 1,
            "VolumeSizeInGB": 80,
        },
        StoppingCondition={"MaxRuntimeInSeconds": 3 * 3600},
    )
    return {"name": name}
