import time

import boto3

sm = boto3.client("sagemaker", region_name="us-west-2")
STAMP = int(time.time())
ROLE = "arn:aws:iam::999900001111:role/inference"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-inference:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker"

model = f"landcover-{STAMP}"
sm.create_model(
    ModelName=model,
    ExecutionRoleArn=ROLE,
    PrimaryContainer={
        "Image": IMAGE,
        "ModelDataUrl": "s3://landcover-models/deeplab/model.tar.gz",
        "Environment": {
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            "SAGEMAKER_REGION": "us-west-2",
        },
    },
)
sm.create_endpoint_config(
    EndpointConfigName=model,
    ProductionVariants=[
        {
            "VariantName": "main",
            "ModelName": model,
            "InstanceType": "ml.g4dn.xlarge",
            "InitialInstanceCount": 1,
        }
    ],
)
sm.create_endpoint(EndpointName=model, EndpointConfigName=model)
sm.get_waiter("endpoint_in_service").wait(EndpointName=model)
print(model, "is in service; delete it with: aws sagemaker delete-endpoint --endpoint-name", model)
