"""What is run as a user with exactly the printed permissions: every command that makes AWS requests, with every option that changes which.

A user's commands run in this order, on one account. The words contain `{bucket}`, GPUproof's own bucket, `{topic}`, an SNS topic,
and `{key}`, a KMS key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuproof_emulator.store import PROCESSING, TRAINING
from support.emulated_account import IMAGE, EmulatedAccount

_SCRIPT = ("--no-check", "--no-require-gpu", "--max-duration", "10m")
_SM = (
    "run",
    "train.py",
    "--on",
    "sagemaker",
    "--instance-type",
    "ml.g5.xlarge",
    "--framework",
    "pytorch",
    *_SCRIPT,
)
_EC2 = ("run", "train.py", "--on", "ec2", "--instance-type", "g5.xlarge", "--detach", *_SCRIPT)
_SERVED = ("--framework", "pytorch", "--instance-type", "ml.g5.xlarge")
_DEPLOY = ("deploy", "model", *_SERVED, "--no-require-gpu")
_TRANSFORM = ("transform", "model", *_SERVED, "--content-type", "application/json")


@dataclass(frozen=True)
class Step:
    """One command.

    Args:
        words: its arguments.
        code: the exit code with all permissions.
        fresh: whether it also ends as much as it may with a missing permission, so that it is tried on an account of its own.
        after: what runs before, on such an account.
        spare: actions without which this command succeeds, while others need them.
    """

    words: tuple[str, ...]
    code: int = 0
    fresh: bool = False
    after: Step | None = None
    spare: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class User:
    """A user and what that user runs.

    Args:
        name: of the IAM user.
        policies: arguments of `gpuproof iam policy` that print the user's policies.
        roles: arguments of `gpuproof iam policy` that print the policy of a role, by the role's name.
        steps: what the user runs.
        prepare: puts into the account what others have created.
        hint: what an error names, besides the action.
        unused: actions of the user's policies that no step needs, with the reason.
        unused_by_roles: actions of the roles' policies that nothing needs on the emulator, with the reason; None if not compared.
        complete: whether the steps need every action of the policies, but for `unused`.
        optional: actions without which the command succeeds, with what it then says; empty for nothing.
    """

    name: str
    policies: tuple[str, ...]
    steps: tuple[Step, ...]
    roles: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[EmulatedAccount], None] = lambda _account: None
    hint: str = "gpuproof iam policy"
    complete: bool = True
    unused: dict[str, str] = field(default_factory=dict)
    unused_by_roles: dict[str, str] | None = None
    optional: dict[str, str] = field(default_factory=dict)


def _step(
    *words: str, code: int = 0, fresh: bool = False, after: Step | None = None, spare: tuple[str, ...] = ()
) -> Step:
    return Step(words, code, fresh, after, frozenset(spare))


def _add_model(account: EmulatedAccount) -> None:
    account.client("sagemaker", "us-east-1").create_model(
        ModelName="theirs",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/gpuproof-sagemaker",
        PrimaryContainer={"Image": IMAGE},
    )


def _add_resources(account: EmulatedAccount) -> None:
    own = {"gpuproof:endpoint": "old", "gpuproof:kind": "endpoint"}
    account.endpoint("old", tags=own)
    account.endpoint("gone", tags=own)
    sagemaker, s3 = account.client("sagemaker", "us-east-1"), account.client("s3", "us-east-1")
    sagemaker.delete_endpoint(EndpointName="gone")
    scaling = account.client("application-autoscaling", "us-east-1")
    scaling.register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId="endpoint/old/variant/main",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=1,
        MaxCapacity=2,
    )
    account.schedule("gpuproof-old", "old")
    s3.create_bucket(Bucket="gpuproof-123456789012-us-east-1")
    s3.put_object(
        Bucket="gpuproof-123456789012-us-east-1", Key="gpuproof/endpoints/old/model.tar.gz", Body=b"x"
    )
    for kind in (TRAINING, PROCESSING):
        account.job(kind, kind=kind, tags={"gpuproof:run": kind}, SecondaryStatusTransitions=[])
    account.job(
        "warm",
        status="Completed",
        age=300.0,
        WarmPoolStatus={"Status": "Available"},
        ResourceConfig={
            "InstanceType": "ml.g5.xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
            "KeepAlivePeriodInSeconds": 600,
        },
    )
    account.transform("transform", status="InProgress")
    account.notebook("work", tags={"gpuproof:notebook": "work"})
    account.notebook("stopped", status="Stopped", tags={"gpuproof:notebook": "stopped"})
    sagemaker.create_notebook_instance_lifecycle_config(
        NotebookInstanceLifecycleConfigName="gpuproof-notebook-x"
    )
    account.app("space")
    account.instance(tags={"gpuproof:run": "lost"})
    account.instance(instance="p3.2xlarge")
    account.volume()


def _add_audited_resources(account: EmulatedAccount) -> None:
    _add_resources(account)
    account.transform("ended", seconds=600)
    account.client("s3", "us-east-1").create_bucket(Bucket="audited")
    account.client("s3", "us-east-1").put_object(Bucket="audited", Key="code/train.py", Body=b"print(1)")
    logs, stream = account.client("logs", "us-east-1"), "audited/algo-1-1"
    logs.create_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    logs.create_log_stream(logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream)
    code = {"S3DataType": "S3Prefix", "S3Uri": "s3://audited/code"}
    account.job("audited", InputDataConfig=[{"ChannelName": "code", "DataSource": {"S3DataSource": code}}])


_WIDE = "--account 123456789012 --input s3://elsewhere/rows --output s3://elsewhere/results --vpc"

SAGEMAKER = User(
    "sagemaker",
    (f"--user {_WIDE}", "--user --kms-key {key}"),
    (
        _step(*_SM, "--name", "one", "--tag", "a=b", "--input", "data=s3://elsewhere/rows", "--keep-alive", "5m"),
        _step("ps", "--all", "--on", "sagemaker", "--region", "us-east-1", spare=("sagemaker:Search",)),
        _step("show", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("logs", "one", "--on", "sagemaker", "--region", "us-east-1", "--follow", "--tail", "5", "--since", "1h",
              spare=("s3:GetObject",)),
        _step("logs", "one", "--host", "algo-1", spare=("s3:GetObject",)),
        _step("top", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("wait", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("pull", "one", "--on", "sagemaker", "--region", "us-east-1", "--to", "out", "--extract"),
        _step("explain", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("report", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("receipt", "one", "--on", "sagemaker", "--region", "us-east-1", "--output", "receipt.json",
              spare=("s3:GetObject",)),
        _step("verify", "receipt.json", "--run", "one", "--on", "sagemaker", "--region", "us-east-1",
              spare=("s3:GetObject",)),
        _step("baseline", "set", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("compare", "one", "--on", "sagemaker", "--region", "us-east-1", spare=("s3:GetObject",)),
        _step("package", "one", "--code", "model/code", "--on", "sagemaker", "--region", "us-east-1", "--no-serve-check",
              "--output", "packed.tar.gz"),
        _step(
            *_SM, "--name", "two", "--detach", "--spot", "--max-wait", "20m", "--fallback", "ml.g6.xlarge",
            "--role", "gpuproof-sagemaker", "--region", "us-east-1", "--instance-count", "2",
            "--image", "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        ),
        _step("stop", "two", "--on", "sagemaker", "--region", "us-east-1", "--now", "--no-wait"),
        _step("run", "private.yaml", "--on", "sagemaker", "--no-check", "--no-require-gpu"),
        _step("pull", "private", "--to", "out-private"),
        _step("run", "processing.yaml", "--on", "sagemaker", "--no-check", "--no-require-gpu", "--detach"),
        _step("stop", "processing", "--on", "sagemaker"),
        _step("stop", "--all", "--on", "sagemaker", "--region", "us-east-1"),
        _step("rm", "one", "--on", "sagemaker", "--region", "us-east-1"),
        _step("rm", "--all", "--older-than", "0s", "--on", "sagemaker"),
        _step(*_DEPLOY, "--name", "ep", "--ttl", "1h", "--max-instances", "2", "--min-instances", "1", "--tag", "a=b",
              "--data-capture", "s3://{bucket}/gpuproof/captured,100", "--region", "us-east-1", "--target-concurrency", "2"),
        _step("predict", "ep", "--data", "[[1,2]]", "--region", "us-east-1", "--target-variant", "AllTraffic",
              spare=("sagemaker:DescribeEndpoint",)),
        _step("predict", "ep", "--data", "[[1,2]]", "--stream", spare=("sagemaker:DescribeEndpoint",)),
        _step("predict", "nowhere", "--data", "[[1,2]]", code=2, spare=("sagemaker:DescribeEndpoint",)),
        _step(*_DEPLOY, "--name", "ep", "--ttl", "2h", "--schedule-role", "gpuproof-scheduler", "--max-instances", "2"),
        _step("deploy", "--rollback", "ep"),
        _step("delete", "ep", "--yes", "--region", "us-east-1"),
        _step(*_DEPLOY, "--name", "ea", "--async", "s3://{bucket}/gpuproof/answers", "--async-success", "{topic}",
              "--async-error", "{topic}", "--role", "gpuproof-sagemaker", "--keep-without-schedule", "--ttl", "1h",
              spare=("scheduler:CreateSchedule",)),
        _step("predict", "ea", "--data", "[[1,2]]"),
        _step("predict", "ea", "--data", "[[1,2]]", "--no-wait", "--output", "answer"),
        _step(*_DEPLOY, "--name", "ea", "--update"),
        _step("delete", "ea", "--yes"),
        _step("deploy", "model", "--framework", "pytorch", "--no-require-gpu", "--name", "es",
              "--serverless", "memory=4096,concurrency=5", code=0),
        _step("delete", "es", "--yes"),
        _step(*_TRANSFORM, "--input", "rows/a.json", "--output", "s3://elsewhere/results/tr",
              "--region", "us-east-1", "--role", "gpuproof-sagemaker", "--instance-count", "1"),
        _step(*_TRANSFORM, "--input", "s3://elsewhere/rows/", "--output", "s3://{bucket}/gpuproof/tr", "--detach",
              "--name", "slow"),
        _step("stop", "slow", spare=("sagemaker:DescribeTransformJob",)),
        _step("transform", "theirs", "--instance-type", "ml.g5.xlarge", "--input", "s3://elsewhere/rows/", "--output",
              "s3://{bucket}/gpuproof/tr", "--detach"),
        _step("notebook", "create", "nb", "--instance-type", "ml.g5.xlarge", "--role", "gpuproof-sagemaker",
              "--region", "us-east-1", "--tag", "a=b", "--fallback", "ml.g6.xlarge", "--no-wait", "--kms-key", "{key}",
              fresh=True),
        _step("notebook", "list", "--region", "us-east-1", spare=("sagemaker:DescribeNotebookInstance",)),
        _step("notebook", "stop", "nb", "--region", "us-east-1"),
        _step("notebook", "start", "nb", "--region", "us-east-1"),
        _step("notebook", "open", "nb", "--region", "us-east-1", "--no-browser", spare=("s3:GetObject",)),
        _step("notebook", "stop", "nb", "--no-wait"),
        _step("notebook", "start", "nb", "--no-wait"),
        _step("notebook", "delete", "nb", "--region", "us-east-1", "--yes", "--force", fresh=True,
              after=_step("notebook", "create", "nb", "--instance-type", "ml.g5.xlarge")),
    ),
    roles={
        "gpuproof-sagemaker": f"--role {_WIDE} --topic {{topic}} --kms-key {{key}}",
        "gpuproof-scheduler": "--on scheduler --role --account 123456789012",
    },
    prepare=_add_model,
    unused={
        "cloudwatch:GetMetricData": "no job runs while `top` looks at it",
        "kms:DescribeKey": "SageMaker looks at a key on behalf of the user",
        "s3:AbortMultipartUpload": "an upload is aborted when it fails",
        "s3:DeleteBucket": "the undo of a bucket that could not be configured",
        "s3:GetObjectTagging": "the agent's file, which is copied, has no tags on the emulator",
    },
    unused_by_roles={
        **dict.fromkeys(
            ("ecr:GetAuthorizationToken", "ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"),
            "the emulator pulls no images",
        ),
        **dict.fromkeys(
            (f"ec2:{verb}NetworkInterface{what}" for verb in ("Create", "Delete") for what in ("", "Permission")),
            "the emulator attaches no network interfaces",
        ),
        **dict.fromkeys(
            (f"ec2:Describe{what}" for what in ("NetworkInterfaces", "Vpcs", "DhcpOptions", "Subnets", "SecurityGroups")),
            "the emulator attaches no network interfaces",
        ),
        "application-autoscaling:DeregisterScalableTarget": "no schedule runs before its endpoint is deleted",
        "application-autoscaling:DescribeScalableTargets": "no schedule runs before its endpoint is deleted",
        "cloudwatch:PutMetricData": "the jobs have no metrics",
        "ec2:TerminateInstances": "no schedule runs",
        "kms:DescribeKey": "SageMaker looks at a key",
        "logs:DescribeLogStreams": "SageMaker looks at its log streams",
        "s3:AbortMultipartUpload": "an upload is aborted when it fails",
        "sagemaker:DeleteEndpoint": "no schedule runs before its endpoint is deleted",
        "sagemaker:StopNotebookInstance": "the notebook instance is not idle for long enough",
    },
    optional={
        "iam:GetRole": "it was not checked whether SageMaker may assume",
        "sagemaker:ListEndpoints": "There is no endpoint nowhere",  # but no similar name is shown
        "sagemaker:Search": "",  # jobs are listed instead
        "servicequotas:GetServiceQuota": "",  # quotas are not compared
    },
)  # fmt: skip

NEEDED_OF_THE_ROLE = {
    SAGEMAKER.steps[0]: ("s3:GetObject", "s3:ListBucket", "s3:PutObject"),
    _step("run", "private.yaml", "--on", "sagemaker", "--no-check", "--no-require-gpu"): (
        "kms:Decrypt",
        "kms:GenerateDataKey",
    ),
    _step("run", "fails.py", *_SM[2:], "--notify-topic", "{topic}", code=1): ("sns:Publish",),
}
"""What fails if SageMaker's role lacks an action. Without those of CloudWatch Logs a job only has no log."""

OWN_BUCKET = User(
    "own-bucket",
    ("--user --bucket data",),
    (
        _step(*_SM, "--name", "one", "--bucket", "data"),
        _step(*_DEPLOY, "--name", "ep", "--bucket", "data"),
        _step("delete", "ep", "--yes"),
        _step(*_TRANSFORM, "--input", "rows/a.json", "--output", "s3://data/gpuproof/tr", "--bucket", "data"),
        _step("notebook", "create", "nb", "--instance-type", "ml.g5.xlarge", "--bucket", "data"),
        _step("notebook", "delete", "nb", "--yes", "--force"),
    ),
    roles={"gpuproof-sagemaker": "--role --bucket data"},
    complete=False,
)

EC2 = User(
    "ec2",
    ("--on ec2 --user --account 123456789012 --region us-east-1 --regions us-west-2 --input s3://elsewhere/rows",),
    (
        _step(*_EC2, "--name", "one", "--tag", "a=b", "--input", "data=s3://elsewhere/rows"),
        _step("ps", "--on", "ec2", "--all"),
        _step("show", "one", "--on", "ec2"),
        _step("logs", "one", "--on", "ec2"),
        _step("top", "one", "--on", "ec2", "--region", "us-east-1"),
        _step("explain", "one", "--on", "ec2"),
        # Instances of this account do not boot, so the run has not started.
        _step("report", "one", "--on", "ec2", code=2),
        # The emulator has no sessions.
        _step("shell", "one", "--region", "us-east-1", "--host", "algo-1", code=5),
        _step("shell", "one", "--forward", "9000", code=5),
        _step("stop", "one", "--on", "ec2", "--no-wait"),
        _step("stop", "one", "--on", "ec2", "--now"),
        _step("wait", "one", "--on", "ec2", code=1, spare=("scheduler:DeleteSchedule",)),
        _step("pull", "one", "--on", "ec2", "--to", "out", code=1),
        _step("receipt", "one", "--on", "ec2", "--output", "receipt.json"),
        _step("verify", "receipt.json", "--run", "one", "--on", "ec2"),
        _step("rm", "one", "--on", "ec2"),
        _step(*_EC2, "--name", "two", "--spot", "--fallback", "g6.xlarge", "--retry-spot", "1", "--role", "gpuproof-ec2",
              "--image", "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1"),
        _step("stop", "two", "--on", "ec2", "--now"),
        _step(*_EC2, "--name", "three", "--instance-count", "2", "--regions", "us-west-2"),
        _step("stop", "--all", "--on", "ec2", "--now"),
        _step("run", "machine.yaml", "--on", "ec2", "--detach", "--no-check", "--jupyter", "--idle-timeout", "1h"),
        _step("shell", "machine", "--jupyter", code=1),
        _step("stop", "machine", "--on", "ec2", "--now"),
    ),
    roles={
        "gpuproof-ec2": "--on ec2 --role --account 123456789012 --region us-east-1 --regions us-west-2",
        "gpuproof-scheduler": "--on scheduler --role --account 123456789012",
    },
    unused={
        "ec2:DescribeRouteTables": "of subnets that the job names",
        "ec2:DescribeVpcEndpoints": "of subnets that the job names",
        "iam:ListInstanceProfilesForRole": "a role's name is given in place of a profile's",
        "logs:GetLogEvents": "no instance boots, and none writes a log",
        "s3:AbortMultipartUpload": "an upload is aborted when it fails",
        "s3:DeleteBucket": "the undo of a bucket that could not be configured",
        "s3:GetObjectTagging": "the agent's file, which is copied, has no tags on the emulator",
        "ssm:StartSession": "the AWS CLI requests it when the instance is connected",
        "ssm:ResumeSession": "the Session Manager plugin requests it",
        "ssm:TerminateSession": "the Session Manager plugin requests it",
        "ssmmessages:OpenDataChannel": "the Session Manager plugin requests it",
    },
    optional={
        "ec2:DescribeImages": "",
        "ec2:DescribeInstances": "",  # the instances report their states in the bucket
        "ec2:DescribeInstanceTypeOfferings": "",
        "ec2:DescribeSpotPriceHistory": "",
        "ec2:GetConsoleOutput": "",
        "iam:GetInstanceProfile": "it was not checked whether the instance profile gpuproof-ec2 exists",
        "iam:GetRole": "",
        "logs:CreateLogGroup": "",  # the instance creates it, without a retention
        "logs:PutRetentionPolicy": "",
        "scheduler:DeleteSchedule": "",  # it ends by itself, and terminates nothing else
        "scheduler:CreateSchedule": "nothing outside the instance ends it",
        "servicequotas:GetServiceQuota": "",
        "ssm:GetConnectionStatus": "",  # the AWS CLI reports an instance that is not connected
        "ssm:GetParameter": "has no AMI",  # images are then found by name, and the emulator has none of these names
    },
)  # fmt: skip

CHEAPEST = User(
    "cheapest",
    ("--user", "--on ec2 --user"),
    (
        _step(
            "run",
            "train.py",
            "--on",
            "cheapest",
            "--gpu",
            "A10G:1",
            "--framework",
            "pytorch",
            "--detach",
            *_SCRIPT,
        ),
        _step("ps", "--all"),
        _step("stop", "train", "--now"),
    ),
    roles={"gpuproof-sagemaker": "--role", "gpuproof-ec2": "--on ec2 --role"},
    complete=False,
)

_INVENTORY = ("ec2:DescribeInstances",)

CLEANUP = User(
    "cleanup",
    ("--cleanup",),
    (
        _step("cleanup", "--region", "us-east-1", "--all"),
        _step("cleanup", "--gpuproof", "--older-than", "1d", "--kind", "endpoint"),
        _step("cleanup", "--idle-for", "7d"),
        _step("cleanup", "--all-regions"),
        _step("cost", "--since", "7d", "--by", "type", "--region", "us-east-1", spare=_INVENTORY),
        _step("cost", "--since", "7d", "--cost-explorer", spare=_INVENTORY),
        _step(
            "cleanup",
            "--all",
            "--region",
            "us-east-1",
            "--delete",
            "--yes",
            "--include-data",
            "--older-than",
            "0s",
            fresh=True,
        ),
    ),
    prepare=_add_resources,
    hint="--cleanup",
    optional={"sagemaker:Search": ""},
    unused={
        "ec2:DeleteSecurityGroup": "of a run on EC2 that needed one of its own",
        "s3:DeleteObject": "a run's files and those of an endpoint that GPUproof deployed",
        "s3:GetObject": "records of runs on EC2, of which the account has none",
        "sagemaker:DescribeEndpoint": "an endpoint that is deleted meanwhile",
        "sagemaker:ListClusterNodes": "the account has no HyperPod cluster",
        "sagemaker:StopHyperParameterTuningJob": "the account has no tuning job",
        "sagemaker:UpdateTrainingJob": "the account has no warm pool that is known to be one",
    },
)

AUDIT = User(
    "audit",
    ("--on audit",),
    (
        _step(
            "audit", "--region", "us-east-1", "--days", "7", "--by", "user", "--all", "--fail-over", "1000000"
        ),
        _step("audit", "--since", "7d"),
        _step("audit", "audited", "--region", "us-east-1"),
        _step("audit", "ended", "--region", "us-east-1"),
    ),
    prepare=_add_audited_resources,
    hint="gpuproof iam policy --on audit",
)

SETUP = User(
    "setup",
    ("--setup",),
    (
        _step("setup", "--dry-run", "--instance-type", "ml.g5.xlarge"),
        _step("setup", "--region", "us-east-1", "--yes"),
        _step("setup", "--remove", "--yes", "--include-data", fresh=True, after=_step("setup", "--yes")),
        _step("setup", "--region", "us-west-2", "--yes"),
        _step(
            "setup",
            "--region",
            "us-west-2",
            "--remove",
            "--yes",
            fresh=True,
            after=_step("setup", "--region", "us-west-2", "--yes"),
        ),
    ),
    hint="gpuproof iam policy --setup",
    unused={
        **dict.fromkeys(
            (
                f"ec2:{name}"
                for name in (
                    "CreateDefaultVpc",
                    "DeleteInternetGateway",
                    "DetachInternetGateway",
                    "DescribeInternetGateways",
                    "DescribeSubnets",
                    "DeleteSubnet",
                    "DeleteVpc",
                )
            ),
            "every region of the emulator has a default VPC",
        ),
        "s3:DeleteObject": "the bucket is empty",
    },
    optional={"servicequotas:GetServiceQuota": ""},
)

USERS = (SAGEMAKER, OWN_BUCKET, EC2, CHEAPEST, CLEANUP, AUDIT, SETUP)
