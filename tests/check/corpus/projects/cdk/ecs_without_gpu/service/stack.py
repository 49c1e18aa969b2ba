import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from constructs import Construct


class UpscalerStack(cdk.Stack):
    """Upscales videos on one GPU host."""

    def __init__(self, scope: Construct, construct_id: str, **kwargs) -> None:
        super().__init__(scope, construct_id, **kwargs)
        vpc = ec2.Vpc(self, "Vpc", max_azs=2)
        cluster = ecs.Cluster(self, "Cluster", vpc=vpc)
        group = autoscaling.AutoScalingGroup(
            self,
            "Hosts",
            vpc=vpc,
            instance_type=ec2.InstanceType("g5.xlarge"),
            machine_image=ecs.EcsOptimizedImage.amazon_linux2(),
            min_capacity=1,
            max_capacity=1,
        )
        cluster.add_asg_capacity_provider(ecs.AsgCapacityProvider(self, "Provider", auto_scaling_group=group))
        task = ecs.Ec2TaskDefinition(self, "Task")
        task.add_container(
            "upscale",
            image=ecs.ContainerImage.from_asset("docker"),
            memory_limit_mib=14_000,
            environment={"QUEUE": "upscale-requests"},
            logging=ecs.LogDrivers.aws_logs(stream_prefix="upscale"),
        )
        ecs.Ec2Service(self, "Service", cluster=cluster, task_definition=task)
