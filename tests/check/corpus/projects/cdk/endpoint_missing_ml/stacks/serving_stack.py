import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker"


class ServingStack(cdk.Stack):
    def __init__(self, scope: Construct, id: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AdministratorAccess")],
        )
        model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=role.role_arn,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=IMAGE,
                model_data_url="s3://models-123456789012/classifier/model.tar.gz",
                environment={"SAGEMAKER_PROGRAM": "inference.py"},
            ),
        )
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[
                sagemaker.CfnEndpointConfig.ProductionVariantProperty(
                    variant_name="all",
                    model_name=model.attr_model_name,
                    initial_instance_count=1,
                    instance_type="g5.2xlarge",
                    initial_variant_weight=1.0,
                )
            ],
        )
        endpoint = sagemaker.CfnEndpoint(self, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
        cdk.CfnOutput(self, "EndpointName", value=endpoint.attr_endpoint_name)
