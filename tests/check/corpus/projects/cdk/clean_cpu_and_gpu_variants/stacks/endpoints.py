"""Two endpoints: each instance type has the image for its processors."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
VARIANTS = {
    "Fast": ("ml.g5.xlarge", f"{REGISTRY}/pytorch-inference:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker"),
    "Cheap": ("ml.c6i.2xlarge", f"{REGISTRY}/pytorch-inference:2.1.0-cpu-py310-ubuntu20.04-sagemaker"),
}


class EndpointsStack(cdk.Stack):
    def __init__(self, scope: Construct, id: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["s3:GetObject"], resources=["arn:aws:s3:::ranker-models/*"])
        )
        for name, (instance_type, image) in VARIANTS.items():
            self.add_endpoint(name, instance_type, image, role)

    def add_endpoint(self, name, instance_type, image, role):
        model = sagemaker.CfnModel(
            self,
            f"{name}Model",
            execution_role_arn=role.role_arn,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=image,
                model_data_url="s3://ranker-models/v7/model.tar.gz",
                environment={"SAGEMAKER_PROGRAM": "inference.py"},
            ),
        )
        config = sagemaker.CfnEndpointConfig(
            self,
            f"{name}Config",
            production_variants=[
                sagemaker.CfnEndpointConfig.ProductionVariantProperty(
                    variant_name="main",
                    model_name=model.attr_model_name,
                    initial_instance_count=1,
                    initial_variant_weight=1,
                    instance_type=instance_type,
                )
            ],
        )
        sagemaker.CfnEndpoint(self, f"{name}Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
