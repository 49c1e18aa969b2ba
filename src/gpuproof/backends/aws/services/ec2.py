"""Requests to EC2, and to the services that its launches read: parameters, service quotas, instance profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.services.iam import NO_SUCH_ENTITY, Role, read_role
from gpuproof.backends.aws.session import AwsSession

RUN_TAG = "gpuproof:run"
"""Tag of instances and volumes, with the id of their run."""

_INSTANCES_HEADER = ("x-gpuproof-instances", "recorded")
"""Header and value of an emulator whose instances do not boot (`gpuproof_emulator.services.ec2_boot`)."""

_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
_MISSING_INSTANCE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_LIVING = ("pending", "running", "stopping", "stopped")
"""States of instances that exist and cost money, or may start again.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
"""


@dataclass(frozen=True)
class Profile:
    """An instance profile.

    Args:
        name: its name, without the path.
        roles: the roles in it; at most one.
    """

    name: str
    arn: str
    roles: tuple[Role, ...]


class EC2Calls(AwsSession):
    """The client's methods for EC2."""

    def run_instances(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Launch instances; returns their descriptions.

        Args:
            request: of RunInstances; its `ClientToken` makes a repeated request return the same instances.

        Raises:
            AwsUnreachable: with `maybe_done` if the response was lost.
        """
        return self._request("ec2", "run_instances", dict(request))["Instances"]

    def instances(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Descriptions of instances, in the order of their ids; terminated instances are missing after about an hour."""
        if not ids:
            return []
        try:
            found = list(self._instances({"InstanceIds": list(ids)}))
        except AwsRefused as refused:
            if refused.code not in _MISSING_INSTANCE:
                raise
            if len(ids) == 1:
                return []
            return [instance for name in ids for instance in self.instances([name])]
        return sorted(found, key=lambda instance: list(ids).index(instance["InstanceId"]))

    def tagged_instances(
        self, tag: str = RUN_TAG, values: Sequence[str] = (), *, living: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield descriptions of instances with a tag. New instances may be missing for some seconds.

        Args:
            values: accepted values; any if empty.
            living: whether to leave out terminated instances.
        """
        filters = [
            {"Name": f"tag:{tag}", "Values": list(values)} if values else {"Name": "tag-key", "Values": [tag]}
        ]
        if living:
            filters.append({"Name": "instance-state-name", "Values": list(_LIVING)})
        yield from self._instances({"Filters": filters})

    def all_instances(self, states: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield descriptions of all instances in some states, such as `running`."""
        yield from self._instances({"Filters": [{"Name": "instance-state-name", "Values": list(states)}]})

    def terminate_instances(self, ids: Sequence[str]) -> None:
        """Terminate instances; no error if they are terminated already.

        Raises:
            AwsRefused: also with `InvalidInstanceID.NotFound`, for some seconds after a launch.
        """
        self._request("ec2", "terminate_instances", {"InstanceIds": list(ids)}, ", ".join(ids))

    def tag_instances(self, ids: Sequence[str], tags: Mapping[str, str]) -> None:
        """Add tags to instances, or replace their values."""
        request = {"Resources": list(ids), "Tags": tag_list(tags)}
        self._request("ec2", "create_tags", request, ", ".join(ids))

    def boots_instances(self) -> bool:
        """Whether launched instances boot: `gpuproof emulator` states in a header of its responses that it only records them."""
        host = urlsplit(self._client("ec2").meta.endpoint_url).hostname or ""
        if host.endswith(_AWS_HOSTS):
            return True
        try:
            answer = self._request("ec2", "describe_instances", {"MaxResults": 5})
        except AwsRefused:
            return True
        name, recorded = _INSTANCES_HEADER
        return answer["ResponseMetadata"]["HTTPHeaders"].get(name) != recorded

    def console_output(self, instance: str) -> str:
        """The latest output of an instance's serial console, at most 64 KB; empty if there is none yet."""
        request = {"InstanceId": instance}
        try:
            answer = self._request("ec2", "get_console_output", {**request, "Latest": True}, instance)
        except AwsRefused as refused:
            if refused.code in _MISSING_INSTANCE:
                return ""
            # The instances that are not based on Nitro have no `Latest`.
            if refused.code not in ("UnsupportedOperation", "InvalidParameterValue"):
                raise
            answer = self._request("ec2", "get_console_output", request, instance)
        return answer.get("Output") or ""  # botocore has decoded it

    def is_connected(self, instance: str) -> bool:
        """Whether the agent of Systems Manager on an instance has connected, so that a session can be opened."""
        answer = self._request("ssm", "get_connection_status", {"Target": instance}, instance)
        return answer.get("Status") == "connected"

    def image(self, image: str) -> dict[str, Any] | None:
        """The description of an AMI; None if it does not exist in the region or may not be read."""
        try:
            found = self._request("ec2", "describe_images", {"ImageIds": [image]}, image)["Images"]
        except AwsRefused as refused:
            if refused.code.startswith(("InvalidAMIID.", "AuthFailure")):
                return None
            raise
        return found[0] if found else None

    def newest_image(self, name: str, arch: str, owner: str = "amazon") -> dict[str, Any] | None:
        """The newest available AMI with a name; None if there is none.

        Args:
            name: a pattern with `*` and `?`.
            arch: `x86_64` or `arm64`.
            owner: an account, or an alias such as `amazon`.
        """
        filters = [
            {"Name": "name", "Values": [name]},
            {"Name": "architecture", "Values": [arch]},
            {"Name": "state", "Values": ["available"]},
        ]
        request = {"Owners": [owner], "Filters": filters}
        found = self._items("ec2", "describe_images", "Images", request, f"AMI {name}")
        return max(found, key=lambda image: image.get("CreationDate", ""), default=None)

    def parameter(self, name: str) -> str | None:
        """The value of a Systems Manager parameter; None if it does not exist."""
        missing = ("ParameterNotFound", "ParameterVersionNotFound")
        answer = self._find("ssm", "get_parameter", {"Name": name}, name, missing)
        return answer["Parameter"]["Value"] if answer else None

    def zones_with(self, instance_type: str) -> set[str]:
        """The availability zones of the region that offer an instance type."""
        filters = [{"Name": "instance-type", "Values": [instance_type]}]
        request = {"LocationType": "availability-zone", "Filters": filters}
        operation, member = "describe_instance_type_offerings", "InstanceTypeOfferings"
        offerings = self._items("ec2", operation, member, request, instance_type)
        return {offering["Location"] for offering in offerings}

    def subnets(
        self, ids: Sequence[str] = (), *, vpc: str | None = None, default: bool = False
    ) -> list[dict[str, Any]]:
        """Descriptions of subnets.

        Args:
            ids: only these.
            vpc: only those of this VPC.
            default: only the default subnets of the zones.
        """
        filters = [{"Name": "vpc-id", "Values": [vpc]}] if vpc else []
        if default:
            filters.append({"Name": "default-for-az", "Values": ["true"]})
        request: dict[str, Any] = {"SubnetIds": list(ids)} if ids else {}
        if filters:
            request["Filters"] = filters
        return list(self._items("ec2", "describe_subnets", "Subnets", request, ", ".join(ids) or None))

    def route_tables(self, vpc: str) -> list[dict[str, Any]]:
        """Descriptions of the route tables of a VPC."""
        request = {"Filters": [{"Name": "vpc-id", "Values": [vpc]}]}
        return list(self._items("ec2", "describe_route_tables", "RouteTables", request, vpc))

    def vpc_endpoints(self, vpc: str) -> list[dict[str, Any]]:
        """Descriptions of the endpoints of a VPC."""
        request = {"Filters": [{"Name": "vpc-id", "Values": [vpc]}]}
        return list(self._items("ec2", "describe_vpc_endpoints", "VpcEndpoints", request, vpc))

    def security_group(self, name: str, vpc: str) -> str | None:
        """The id of a security group of a VPC; None if there is none of that name."""
        filters = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [vpc]}]
        groups = self._security_groups({"Filters": filters}, f"security group {name}")
        return next((group["GroupId"] for group in groups), None)

    def allows_itself(self, group: str) -> bool:
        """Whether the instances of a security group may connect to each other."""
        request = {"GroupIds": [group]}
        (found,) = self._request("ec2", "describe_security_groups", request, group)["SecurityGroups"]
        return any(
            rule.get("IpProtocol") == "-1" and pair.get("GroupId") == group
            for rule in found.get("IpPermissions", ())
            for pair in rule.get("UserIdGroupPairs", ())
        )

    def spot_prices(self, instance_type: str, now: float) -> dict[str, float]:
        """The current spot prices of an instance type under Linux, in USD per hour by availability zone.

        Args:
            now: seconds since the epoch.
        """
        at = datetime.fromtimestamp(now, UTC)
        request = {
            "InstanceTypes": [instance_type],
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": at,
            "EndTime": at,
        }
        latest: dict[str, tuple[Any, float]] = {}
        history = self._items(
            "ec2", "describe_spot_price_history", "SpotPriceHistory", request, instance_type
        )
        for entry in history:
            zone, found = entry["AvailabilityZone"], (entry["Timestamp"], float(entry["SpotPrice"]))
            latest[zone] = max(latest.get(zone, found), found)
        return {zone: price for zone, (_, price) in latest.items()}

    def service_quota(self, service: str, code: str) -> float | None:
        """The account's value of a quota; None if there is no such quota in the region."""
        request = {"ServiceCode": service, "QuotaCode": code}
        missing = ("NoSuchResourceException",)
        answer = self._find("service-quotas", "get_service_quota", request, f"quota {code}", missing)
        return answer["Quota"].get("Value") if answer else None

    def instance_profile(self, name: str) -> Profile | None:
        """An instance profile of this account; None if it does not exist."""
        request = {"InstanceProfileName": name}
        answer = self._find(
            "iam", "get_instance_profile", request, f"instance profile {name}", NO_SUCH_ENTITY
        )
        return _profile(answer["InstanceProfile"]) if answer else None

    def profiles_of_role(self, role: str) -> list[Profile]:
        """The instance profiles that contain a role; none if the role does not exist."""
        operation, member, request = "list_instance_profiles_for_role", "InstanceProfiles", {"RoleName": role}
        try:
            return [
                _profile(profile)
                for profile in self._items("iam", operation, member, request, f"role {role}")
            ]
        except AwsRefused as refused:
            if refused.code in NO_SUCH_ENTITY:
                return []
            raise

    def _instances(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        ids = ", ".join(request.get("InstanceIds", ()))
        for reservation in self._items("ec2", "describe_instances", "Reservations", request, ids):
            yield from reservation["Instances"]

    def _security_groups(
        self, request: dict[str, Any], subject: str | None = None
    ) -> Iterator[dict[str, Any]]:
        yield from self._items("ec2", "describe_security_groups", "SecurityGroups", request, subject)


def _profile(answer: Mapping[str, Any]) -> Profile:
    return Profile(answer["InstanceProfileName"], answer["Arn"], tuple(map(read_role, answer["Roles"])))


def tag_dict(listed: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Tags by key, from the form of the API."""
    return {tag["Key"]: tag["Value"] for tag in listed}


def tag_list(given: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags in the form of the API."""
    return [{"Key": key, "Value": value} for key, value in given.items()]
