from aws_cdk import Duration, Size, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct


class TrainStack(Stack):
    def __init__(self, scope: Construct, construct_id: str, **kwargs) -> None:
        super().__init__(scope, construct_id, **kwargs)
        bucket = s3.Bucket(self, "Bucket", versioned=True)
        step = tasks.SageMakerCreateTrainingJob(
            self,
            "TrainModel",
            training_job_name=sfn.JsonPath.string_at("$.name"),
            algorithm_specification=tasks.AlgorithmSpecification(
                training_image=tasks.DockerImage.from_registry(
                    "763104351884.dkr.ecr.us-west-2.amazonaws.com/"
                    "pytorch-training:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
                ),
                training_input_mode=tasks.InputMode.FAST_FILE,
            ),
            hyperparameters={
                "sagemaker_program": "main.py",
                "sagemaker_submit_directory": bucket.s3_url_for_object("code.tar.gz"),
            },
            input_data_config=[
                tasks.Channel(
                    channel_name="images",
                    data_source=tasks.DataSource(
                        s3_data_source=tasks.S3DataSource(
                            s3_location=tasks.S3Location.from_bucket(bucket, "images/")
                        )
                    ),
                )
            ],
            output_data_config=tasks.OutputDataConfig(
                s3_output_location=tasks.S3Location.from_bucket(bucket, "output/")
            ),
            resource_config=tasks.ResourceConfig(
                instance_count=1,
                instance_type=ec2.InstanceType("ml.g5.4xlarge"),
                volume_size=Size.gibibytes(50),
            ),
            stopping_condition=tasks.StoppingCondition(max_runtime=Duration.hours(6)),
        )
        sfn.StateMachine(self, "Machine", definition_body=sfn.DefinitionBody.from_chainable(step))
