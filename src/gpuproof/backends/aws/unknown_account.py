"""The client of a dry run without credentials: it makes no request, and answers what only an account knows with placeholders."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from gpuproof.backends.aws.client import Aws
from gpuproof.backends.aws.errors import NoCredentials
from gpuproof.backends.aws.s3_object import S3Object
from gpuproof.backends.aws.services.ec2 import Profile
from gpuproof.backends.aws.services.iam import Caller, Role
from gpuproof.backends.aws.services.sagemaker import SageMakerKind
from gpuproof.backends.aws.services.tagging import JOBS
from gpuproof.catalogue.regions import partition_of

ACCOUNT, ROLE, IMAGE, VPC, SUBNET, ZONE = "<account>", "<role>", "<ami>", "<vpc>", "<subnet>", "<zone>"
PLACEHOLDERS = {
    ACCOUNT: "the AWS account, 12 digits",
    ROLE: "the role that the service may assume",
    IMAGE: "the id of the machine image in the region",
    VPC: "the default VPC of the region",
    SUBNET: "a subnet of that VPC",
    ZONE: "its availability zone",
    "<configuration>": "the endpoint's configurations, by their tags",
    "<model>": "the endpoint's models, by their tags",
    "<variant>": "the endpoint's variant, if it is scaled",
    "<regions>": "the regions that the account has enabled",
    "<object>": "the first object below the address",
}
"""What each placeholder stands for."""

ASSUMED_REGION = "us-east-1"
"""The region of a dry run if none is set."""

_SERVICES = ("sagemaker.amazonaws.com", "ec2.amazonaws.com", "scheduler.amazonaws.com")


class UnknownAccount(Aws):
    """An account of which nothing is known: GPUproof's bucket and security group do not exist yet, everything else that a job
    names exists, and quotas suffice.

    Every other request raises NoCredentials.
    """

    @classmethod
    def unless_known(cls, aws: Aws) -> Aws:
        """A client itself if it has credentials; otherwise one that plans without an account."""
        if isinstance(aws, cls) or aws.has_credentials():
            return aws
        region = aws.configured_region
        unknown = cls(aws.boto3_session, region=region or ASSUMED_REGION)
        _print_once(
            f"No AWS credentials: nothing is sent to AWS, and what only an account knows is shown as {ACCOUNT}, {ROLE} …"
        )
        if region is None:
            _print_once(f"No AWS region is set: {ASSUMED_REGION} is assumed (--region).")
        return unknown

    @property
    def region_flag(self) -> str:
        """Empty: no command can follow without credentials."""
        return ""

    def caller(self) -> Caller:
        """A user of the account."""
        return Caller(ACCOUNT, self._arn("user/<user>"), "<user>")

    def role(self, name_or_arn: str) -> Role:
        """The role of that name, which every service may assume."""
        arn = name_or_arn if name_or_arn.startswith("arn:") else self._arn(f"role/{name_or_arn}")
        return Role(arn, name_or_arn.rpartition("/")[2], _SERVICES)

    def roles(self) -> Iterator[Role]:
        """One role."""
        yield self.role(ROLE)

    def instance_profile(self, name: str) -> Profile:
        """The instance profile of that name."""
        return Profile(name, self._arn(f"instance-profile/{name}"), (self.role(name),))

    def profiles_of_role(self, role: str) -> list[Profile]:  # noqa: ARG002 - as its base class
        """None: the instance profile has the role's name."""
        return []

    def bucket_region(self, bucket: str, *, owner: str | None = None) -> str | None:  # noqa: ARG002
        """This region for a bucket that the job names; GPUproof's own one does not exist yet."""
        return None if owner else self.region

    def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        """The address itself, without a size; no records of earlier runs."""
        if not prefix.startswith("gpuproof/"):
            yield S3Object(
                bucket, prefix if prefix and not prefix.endswith("/") else f"{prefix}<object>", 0, "", 0
            )

    def object(self, bucket: str, key: str) -> S3Object:
        """The object."""
        return S3Object(bucket, key, 0, "", 0)

    def subnets(
        self,
        ids: Sequence[str] = (),
        *,
        vpc: str | None = None,
        default: bool = False,  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """The subnets that the job names, or one of the default VPC."""
        return [
            {"SubnetId": id_, "VpcId": vpc or VPC, "AvailabilityZone": ZONE} for id_ in (ids or (SUBNET,))
        ]

    def has_log_group(self, group: str) -> bool:  # noqa: ARG002
        """False: the first launch creates it."""
        return False

    def security_group(self, name: str, vpc: str) -> None:
        """None yet."""

    def zones_with(self, instance_type: str) -> set[str]:  # noqa: ARG002
        """The zone of the subnets."""
        return {ZONE}

    def parameter(self, name: str) -> str | None:  # noqa: ARG002
        """None: AMIs are described by their names."""
        return None

    def image(self, image: str) -> dict[str, Any]:
        """An AMI of which only the id is known."""
        return {"ImageId": image}

    def newest_image(self, name: str, arch: str, owner: str = "amazon") -> dict[str, Any]:  # noqa: ARG002
        """The AMI of that name."""
        return {"ImageId": IMAGE, "Name": name.rstrip("* "), "Architecture": arch}

    def spot_prices(self, instance_type: str, now: float) -> dict[str, float]:  # noqa: ARG002
        """No prices."""
        return {}

    def service_quota(self, service: str, code: str) -> None:
        """Unknown, so that no type is left out."""

    def tagged(
        self,
        key: str,  # noqa: ARG002
        values: Sequence[str] = (),  # noqa: ARG002
        resource_types: Sequence[str] = JOBS,  # noqa: ARG002
    ) -> Iterator[tuple[str, dict[str, str]]]:
        """Nothing."""
        return iter(())

    def list_jobs(
        self,
        kind: SageMakerKind,  # noqa: ARG002
        *,
        name_contains: str | None = None,  # noqa: ARG002
        created_after: float | None = None,  # noqa: ARG002
        status: str | None = None,  # noqa: ARG002
        limit: int | None = None,  # noqa: ARG002
    ) -> Iterator[dict[str, Any]]:
        """No earlier jobs."""
        return iter(())

    def describe_endpoint(self, name: str) -> None:
        """None of that name."""

    def describe_notebook(self, name: str) -> None:
        """None of that name."""

    def describe_model(self, name: str) -> None:
        """None of that name."""

    def schedule(self, name: str, group: str | None = None) -> None:
        """None of that name."""

    def _arn(self, resource: str) -> str:
        suffix = partition_of(self.region).removeprefix("aws").rstrip("-")
        return f"arn:aws{f'-{suffix}' if suffix else ''}:iam::{ACCOUNT}:{resource}"

    def _make_client(self, service: str, once: bool) -> NoReturn:  # noqa: ARG002
        raise NoCredentials(
            f"Without AWS credentials, it is not known what {service} would answer.",
            "Set AWS_PROFILE, or sign in with `aws sso login`. To try it without an account: gpuproof emulator",
        )


@cache
def _print_once(text: str) -> None:
    print(f"gpuproof: {text}", file=sys.stderr)


def placeholders_in(document: Any) -> dict[str, str]:
    """The placeholders in a document, with what each stands for; empty if the account is known."""
    text = str(document)
    return {name: meaning for name, meaning in PLACEHOLDERS.items() if name in text}


def without_placeholders(text: str) -> str:
    """A text with values of the right form for its placeholders."""
    for name in PLACEHOLDERS:
        text = text.replace(name, "0" * 12 if name == ACCOUNT else "x")
    return text


def with_placeholders(document: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of a plan, and of its placeholders if there are any."""
    found = placeholders_in(document)
    return {**document, "placeholders": found} if found else dict(document)
