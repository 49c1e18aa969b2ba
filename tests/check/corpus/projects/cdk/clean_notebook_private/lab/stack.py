from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

STOP = Path(__file__).with_name("autostop.sh")


class LabStack(cdk.Stack):
    """A private GPU notebook that stops itself after an hour without work."""

    def __init__(self, scope: Construct, id: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        vpc = ec2.Vpc.from_lookup(self, "Vpc", vpc_name="research")
        group = ec2.SecurityGroup(self, "Group", vpc=vpc)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:ListBucket"],
                resources=["arn:aws:s3:::research-data", "arn:aws:s3:::research-data/*"],
            )
        )
        hook = sagemaker.CfnNotebookInstanceLifecycleConfig.NotebookInstanceLifecycleHookProperty(
            content=cdk.Fn.base64(STOP.read_text())
        )
        lifecycle = sagemaker.CfnNotebookInstanceLifecycleConfig(
            self,
            "AutoStop",
            notebook_instance_lifecycle_config_name="auto-stop",
            on_start=[hook],
        )
        sagemaker.CfnNotebookInstance(
            self,
            "Notebook",
            instance_type="ml.g5.xlarge",
            role_arn=role.role_arn,
            subnet_id=vpc.private_subnets[0].subnet_id,
            security_group_ids=[group.security_group_id],
            direct_internet_access="Disabled",
            root_access="Disabled",
            lifecycle_config_name=lifecycle.attr_notebook_instance_lifecycle_config_name,
            platform_identifier="notebook-al2-v3",
        )
