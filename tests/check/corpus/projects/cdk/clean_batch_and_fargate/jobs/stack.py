"""GPU jobs on EC2, everything else on Fargate, which has no GPUs."""

import aws_cdk as cdk
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from constructs import Construct


class JobsStack(cdk.Stack):
    def __init__(self, scope: Construct, id: str, **kwargs) -> None:
        super().__init__(scope, id, **kwargs)
        vpc = ec2.Vpc(self, "Vpc", max_azs=2)
        image = ecs.ContainerImage.from_ecr_repository(ecr.Repository.from_repository_name(self, "Repo", "bio"), "3")

        gpu_hosts = batch.ManagedEc2EcsComputeEnvironment(
            self,
            "GpuHosts",
            vpc=vpc,
            instance_types=[ec2.InstanceType("g5.xlarge"), ec2.InstanceType("g5.2xlarge")],
            use_optimal_instance_classes=False,
            images=[batch.EcsMachineImage(image_type=batch.EcsMachineImageType.ECS_AL2_NVIDIA)],
            maxv_cpus=32,
        )
        cpu_hosts = batch.FargateComputeEnvironment(self, "CpuHosts", vpc=vpc, maxv_cpus=64)
        for name, environment in {"Gpu": gpu_hosts, "Cpu": cpu_hosts}.items():
            queue = batch.JobQueue(self, f"{name}Queue")
            queue.add_compute_environment(environment, 1)

        batch.EcsJobDefinition(
            self,
            "Fold",
            container=batch.EcsEc2ContainerDefinition(
                self, "FoldContainer", image=image, cpu=4, gpu=1, memory=cdk.Size.gibibytes(14),
                command=["python", "fold.py"],
            ),
        )
        batch.EcsJobDefinition(
            self,
            "Report",
            container=batch.EcsFargateContainerDefinition(
                self, "ReportContainer", image=image, cpu=2, memory=cdk.Size.gibibytes(8),
                command=["python", "report.py"], environment={"CUDA_VISIBLE_DEVICES": ""},
            ),
        )
