"""A custom resource that starts a training when the stack is deployed."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import custom_resources as cr
from constructs import Construct


class TuneStack(cdk.Stack):
    def __init__(self, scope: Construct, id: str, *, role_arn: str, image: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        request = {
            "TrainingJobName": "forest-cover-v12",
            "RoleArn": role_arn,
            "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
            "InputDataConfig": [
                {
                    "ChannelName": "train",
                    "DataSource": {
                        "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://forest-123456789012/train"}
                    },
                }
            ],
            "OutputDataConfig": {"S3OutputPath": "s3://forest-123456789012/models"},
            "ResourceConfig": {
                "InstanceType": "ml.g4dn.xlarge",
                "InstanceCount": 4,
                "VolumeSizeInGB": 60,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        }
        cr.AwsCustomResource(
            self,
            "Start",
            on_create=cr.AwsSdkCall(
                service="SageMaker",
                action="createTrainingJob",
                parameters=request,
                physical_resource_id=cr.PhysicalResourceId.of("forest-cover-v12"),
            ),
            policy=cr.AwsCustomResourcePolicy.from_statements(
                [
                    iam.PolicyStatement(actions=["sagemaker:CreateTrainingJob"], resources=["*"]),
                    iam.PolicyStatement(actions=["iam:PassRole"], resources=[role_arn]),
                ]
            ),
        )
