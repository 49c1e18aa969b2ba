"""An emulated account whose resources exist but run nothing: for tests of commands that list, count and delete.

Endpoints and jobs are put into the emulator's store as if they were in service; all else goes through its API.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from werkzeug.serving import make_server

from gpuproof.backends.remote.iam.policy import Scope, role_policy
from gpuproof_emulator.auth.token import load_token
from gpuproof_emulator.bootstrap import user_environment
from gpuproof_emulator.emulator import Emulator
from gpuproof_emulator.faults.fault import Fault
from gpuproof_emulator.options import Options
from gpuproof_emulator.server import _quiet_handler
from gpuproof_emulator.store import (
    ENDPOINT,
    NOTEBOOK,
    PROCESSING,
    TRAINING,
    TRANSFORM,
    Resource,
    resource_arn,
)
from gpuproof_emulator.wsgi import Application

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6-gpu-py312"
OWN = {"gpuproof:job": "chat", "gpuproof:kind": "endpoint"}
DAY = 86_400.0


@dataclass
class EmulatedAccount:
    """The account.

    Args:
        emulator: handles the requests of the server.
        environment: variables with which AWS SDKs reach it.
        application: the server's, which records requests.
    """

    emulator: Emulator
    environment: dict[str, str]
    application: Application
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def client(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            self._clients[service, region] = self.session(region).client(
                service,
                endpoint_url=self.environment["AWS_ENDPOINT_URL"],
                config=Config(retries={"mode": "standard"}),
            )
        return self._clients[service, region]

    def session(self, region: str | None = None) -> boto3.Session:
        return boto3.Session(
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            region_name=region or "us-east-1",
        )

    def fault(self, text: str) -> None:
        self.emulator.context.faults.add(Fault.parse(text))

    def requests(self, operation: str) -> int:
        """How many requests were made for an operation."""
        return sum(request["operation"] == operation for request in self.application._requests)

    def operations(self) -> list[str]:
        """The operations that GPUproof has requested."""
        return [
            request["operation"]
            for request in self.application._requests
            if "gpuproof/" in request["user_agent"]
        ]

    def changes(self) -> list[str]:
        """The operations that GPUproof has requested, but for those that only read."""
        reading = ("List", "Describe", "Get", "Search", "Head")
        return [operation for operation in self.operations() if not operation.startswith(reading)]

    def endpoint(
        self,
        name: str,
        region: str = "us-east-1",
        *,
        instance: str = "ml.g5.xlarge",
        count: int = 1,
        tags: Mapping[str, str] | None = None,
        age: float = 30 * DAY,
        status: str = "InService",
        config: str | None = None,
    ) -> None:
        """An endpoint with a model and a configuration of its own, all with these tags."""
        listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        sagemaker = self.client("sagemaker", region)
        if config is None:
            config = f"{name}-config"
            sagemaker.create_model(ModelName=f"{name}-model", PrimaryContainer={"Image": IMAGE}, Tags=listed)
            variant = {
                "VariantName": "main",
                "ModelName": f"{name}-model",
                "InstanceType": instance,
                "InitialInstanceCount": count,
            }
            sagemaker.create_endpoint_config(
                EndpointConfigName=config, ProductionVariants=[variant], Tags=listed
            )
        created = time.time() - age
        running = {"VariantName": "main", "CurrentInstanceCount": count, "CurrentWeight": 1.0}
        document = {
            "EndpointName": name,
            "EndpointArn": resource_arn(ENDPOINT, region, name),
            "EndpointConfigName": config,
            "EndpointStatus": status,
            "ProductionVariants": [running] if status == "InService" else [],
            "CreationTime": created,
            "LastModifiedTime": created,
        }
        self.emulator.context.store.add(Resource(ENDPOINT, region, name, document, dict(tags or {})))

    def invoked(self, endpoint: str, ago: float, region: str = "us-east-1", variant: str = "main") -> None:
        """Count an invocation of an endpoint some seconds ago, as SageMaker does."""
        metric = {
            "MetricName": "Invocations",
            "Dimensions": [
                {"Name": "EndpointName", "Value": endpoint},
                {"Name": "VariantName", "Value": variant},
            ],
            "Timestamp": datetime.fromtimestamp(time.time() - ago, UTC),
            "Value": 1.0,
        }
        self.client("cloudwatch", region).put_metric_data(Namespace="AWS/SageMaker", MetricData=[metric])

    def job(
        self,
        name: str,
        region: str = "us-east-1",
        *,
        kind: str = TRAINING,
        instance: str = "ml.g5.xlarge",
        count: int = 1,
        tags: Mapping[str, str] | None = None,
        age: float = 3600.0,
        status: str = "InProgress",
        **more: Any,
    ) -> None:
        """A training or processing job without a process."""
        created = time.time() - age
        resources = {"InstanceType": instance, "InstanceCount": count, "VolumeSizeInGB": 30}
        word = "Training" if kind == TRAINING else "Processing"
        document: dict[str, Any] = {
            f"{word}JobName": name,
            f"{word}JobArn": resource_arn(kind, region, name),
            f"{word}JobStatus": status,
            "CreationTime": created,
            "LastModifiedTime": created,
            f"{word}StartTime": created,
            "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        }
        if kind == TRAINING:
            document |= {
                "ResourceConfig": resources,
                "SecondaryStatus": "Training" if status == "InProgress" else status,
                "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
            }
        else:
            document |= {
                "ProcessingResources": {"ClusterConfig": resources},
                "AppSpecification": {"ImageUri": IMAGE},
            }
        if kind == PROCESSING:
            document.pop("RoleArn")
        self.emulator.context.store.add(Resource(kind, region, name, {**document, **more}, dict(tags or {})))

    def transform(
        self,
        name: str,
        region: str = "us-east-1",
        *,
        instance: str = "ml.g5.xlarge",
        count: int = 1,
        tags: Mapping[str, str] | None = None,
        age: float = 3600.0,
        seconds: float | None = None,
        status: str = "Completed",
    ) -> None:
        """A batch transform job that began a minute after its creation and ran for some seconds; None: it has not begun."""
        created = time.time() - age
        document: dict[str, Any] = {
            "TransformJobName": name,
            "TransformJobArn": resource_arn(TRANSFORM, region, name),
            "TransformJobStatus": status,
            "ModelName": name,
            "CreationTime": created,
            "TransformResources": {"InstanceType": instance, "InstanceCount": count},
        }
        if seconds is not None:
            document["TransformStartTime"] = created + 60
            if status != "InProgress":
                document["TransformEndTime"] = created + 60 + seconds
        self.emulator.context.store.add(Resource(TRANSFORM, region, name, document, dict(tags or {})))

    def app(self, name: str, region: str = "us-east-1", instance: str = "ml.g5.xlarge") -> str:
        """A Studio app in a space of its own; returns its name in the inventory."""
        self.client("sagemaker", region).create_app(
            DomainId="d-000000000001",
            SpaceName=name,
            AppType="JupyterLab",
            AppName="default",
            ResourceSpec={"InstanceType": instance},
        )
        return f"d-000000000001/{name}/JupyterLab/default"

    def instance(
        self,
        region: str = "us-east-1",
        instance: str = "g5.xlarge",
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """A running EC2 instance; returns its id."""
        ec2 = self.client("ec2", region)
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": listed}]} if listed else {}
        made = ec2.run_instances(ImageId=image, InstanceType=instance, MinCount=1, MaxCount=1, **more)
        return made["Instances"][0]["InstanceId"]

    def volume(self, region: str = "us-east-1") -> str:
        """A volume that no instance uses; returns its id."""
        ec2 = self.client("ec2", region)
        made = ec2.create_volume(AvailabilityZone=f"{region}a", Size=100, VolumeType="gp3")
        return made["VolumeId"]

    def schedule(self, name: str, endpoint: str, region: str = "us-east-1") -> None:
        """A schedule that deletes an endpoint in 2030, as `gpuproof deploy --ttl` creates it."""
        trusted = {
            "Effect": "Allow",
            "Principal": {"Service": "scheduler.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [trusted]})
        iam = self.client("iam", "us-east-1")
        with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName="scheduler", AssumeRolePolicyDocument=document)
            policy = role_policy(Scope(backend="scheduler"))
            iam.put_role_policy(RoleName="scheduler", PolicyName="delete", PolicyDocument=json.dumps(policy))
        self.client("scheduler", region).create_schedule(
            Name=name,
            ScheduleExpression="at(2030-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
                "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
                "Input": json.dumps({"EndpointName": endpoint}),
            },
        )

    def notebook(
        self,
        name: str,
        region: str = "us-east-1",
        *,
        instance: str = "ml.g5.xlarge",
        status: str = "InService",
        tags: Mapping[str, str] | None = None,
        age: float = DAY,
        changed: float | None = None,
        volume_gb: int = 50,
    ) -> None:
        """A notebook instance without a machine, whose status changed some seconds ago."""
        created = time.time() - age
        document = {
            "NotebookInstanceName": name,
            "NotebookInstanceArn": resource_arn(NOTEBOOK, region, name),
            "NotebookInstanceStatus": status,
            "InstanceType": instance,
            "VolumeSizeInGB": volume_gb,
            "CreationTime": created,
            "LastModifiedTime": created if changed is None else time.time() - changed,
        }
        self.emulator.context.store.add(Resource(NOTEBOOK, region, name, document, dict(tags or {})))

    def state(self, *regions: str) -> dict[str, Any]:
        """Everything that a cleanup could change, by a name, as AWS describes it now.

        Args:
            regions: of EC2 instances, volumes and schedules; those of all other resources and us-east-1 are added.
        """
        found: dict[str, Any] = {
            f"{entry.region}/{entry.kind}/{entry.name}": dict(entry.document) | {"extra": dict(entry.extra)}
            for entry in self.emulator.context.store.all()
        }
        for region in {key.partition("/")[0] for key in found} | {"us-east-1", *regions}:
            ec2 = self.client("ec2", region)
            for reservation in ec2.describe_instances()["Reservations"]:
                for entry in reservation["Instances"]:
                    found[f"{region}/instance/{entry['InstanceId']}"] = entry["State"]["Name"]
            for entry in ec2.describe_volumes()["Volumes"]:
                found[f"{region}/volume/{entry['VolumeId']}"] = entry["State"]
            for entry in self.client("scheduler", region).list_schedules()["Schedules"]:
                found[f"{region}/schedule/{entry['Name']}"] = entry["State"]
        s3 = self.client("s3", "us-east-1")
        for bucket in s3.list_buckets()["Buckets"]:
            for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
                found[f"s3://{bucket['Name']}/{item['Key']}"] = item["ETag"]
        return found

    def reset(self) -> None:
        """An empty account again."""
        self.emulator.reset()
        self.application._requests.clear()


@contextlib.contextmanager
def emulated_account(
    folder: Path, *, enforce_iam: bool = False, role: bool = False
) -> Iterator[EmulatedAccount]:
    """An account in this process, on a free port of loopback.

    Args:
        enforce_iam: whether users and roles may do only what their policies allow.
        role: whether the account has the roles of jobs, schedules and instances.
    """
    options = Options(folder, hold=0.0, stop_grace=1.0, role=role, enforce_iam=enforce_iam)
    server = make_server("127.0.0.1", 0, _unavailable, threaded=True, request_handler=_quiet_handler())
    url, token = f"http://127.0.0.1:{server.server_port}", load_token(folder)
    emulator = Emulator(options, url, token)
    application = Application(emulator)
    server.app = application
    threading.Thread(target=server.serve_forever, daemon=True).start()
    emulator.create_roles()
    environment = {
        **user_environment(url, token, folder),
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        yield EmulatedAccount(emulator, environment, application)
    finally:
        emulator.shutdown()
        server.shutdown()
        server.server_close()
        _forget_resources()


def _forget_resources() -> None:
    """Empty moto, whose resources are the process's: a later server of moto would have them, too."""
    from moto.moto_api._internal.models import moto_api_backend  # loads slowly

    moto_api_backend.reset()


def _unavailable(_environ: object, start_response: Any) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Length", "0")])
    return []
