"""A state machine that trains every night. CDK's task adds the prefix "ml." to the instance type by itself."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

IMAGE = "763104351884.dkr.ecr.eu-central-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker"


class PipelineStack(cdk.Stack):
    def __init__(self, scope: Construct, id: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        bucket = s3.Bucket.from_bucket_name(self, "Data", "demand-forecast-123456789012")
        train = tasks.SageMakerCreateTrainingJob(
            self,
            "Train",
            training_job_name=sfn.JsonPath.string_at("$$.Execution.Name"),
            integration_pattern=sfn.IntegrationPattern.RUN_JOB,
            algorithm_specification=tasks.AlgorithmSpecification(
                training_image=tasks.DockerImage.from_registry(IMAGE),
                training_input_mode=tasks.InputMode.FILE,
            ),
            hyperparameters={
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": bucket.s3_url_for_object("code/source.tar.gz"),
                "epochs": "10",
            },
            input_data_config=[
                tasks.Channel(
                    channel_name="train",
                    data_source=tasks.DataSource(
                        s3_data_source=tasks.S3DataSource(
                            s3_location=tasks.S3Location.from_bucket(bucket, "train"),
                        )
                    ),
                )
            ],
            output_data_config=tasks.OutputDataConfig(
                s3_output_location=tasks.S3Location.from_bucket(bucket, "models")
            ),
            resource_config=tasks.ResourceConfig(
                instance_count=1,
                instance_type=ec2.InstanceType.of(ec2.InstanceClass.G5, ec2.InstanceSize.XLARGE2),
                volume_size=cdk.Size.gibibytes(100),
            ),
            stopping_condition=tasks.StoppingCondition(max_runtime=cdk.Duration.hours(3)),
        )
        machine = sfn.StateMachine(self, "Machine", definition_body=sfn.DefinitionBody.from_chainable(train))
        events.Rule(
            self,
            "Nightly",
            schedule=events.Schedule.cron(hour="1", minute="30"),
            targets=[targets.SfnStateMachine(machine)],
        )
