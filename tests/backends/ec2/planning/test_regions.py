"""The regions of a job are planned together; those in which it cannot run are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.api_call import format_calls
from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.errors import NoCapacity
from gpuproof.errors import GPUproofError, InvalidJob, UsageError
from gpuproof.jobs import override_job
from gpuproof.jobs.models.script_jobs import TrainingJob
from support.aws_emulator import REGION, RunningEmulator
from support.ec2_planning import EC2PlanningSandbox
from support.faulty_aws import FakeResponse, FaultyAws, Request, json_error, query_error

pytestmark = pytest.mark.slow

OTHER, THIRD = "us-west-2", "eu-west-1"
G_QUOTA = "L-DB2E81BA"


@pytest.fixture
def quotas(emulator: RunningEmulator) -> Iterator[RunningEmulator]:
    yield emulator
    emulator.quotas({f"{region}/{G_QUOTA}": 1000 for region in (REGION, OTHER, THIRD)})


def plan(sandbox: EC2PlanningSandbox, job: TrainingJob, **flags: str) -> EC2Plan:
    return sandbox.plan(override_job(job, flags, Path("/")))


def in_regions(sandbox: EC2PlanningSandbox, *regions: Any, **keys: Any) -> TrainingJob:
    return sandbox.training(**{**keys, "ec2": {"regions": list(regions), **keys.get("ec2", {})}})


def places(planned: EC2Plan) -> list[tuple[str, str]]:
    return [(target.region, target.name) for target in planned.targets]


def test_all_types_of_a_region_precede_those_of_the_next(sandbox: EC2PlanningSandbox) -> None:
    planned = sandbox.plan(in_regions(sandbox, OTHER, THIRD, fallbacks=["g5.2xlarge"]))
    assert places(planned) == [
        (region, name) for region in (REGION, OTHER, THIRD) for name in ("g5.xlarge", "g5.2xlarge")
    ]
    assert (planned.region, planned.regions) == (REGION, (REGION, OTHER, THIRD))
    for target in planned.targets:
        assert all(zone.name.startswith(target.region) for zone in target.zones)
        assert all(zone.subnet for zone in target.zones)
    assert len({target.ami.id for target in planned.targets}) == 3


def test_the_highest_cost_is_that_of_the_most_expensive_region(sandbox: EC2PlanningSandbox) -> None:
    planned = sandbox.plan(in_regions(sandbox, THIRD))
    prices = [target.price.usd_per_hour for target in planned.targets if target.price]
    assert prices[1] > prices[0]
    lines = dict(planned.describe())
    assert lines["time limit"].endswith(f" on g5.xlarge in {THIRD}, and the volume")
    assert f"\nelse in {THIRD}: g5.xlarge at $1.1" in lines["instance"]
    assert lines["region"].startswith(f"{THIRD}: ami-")
    assert f"{THIRD}a" in lines["region"]


def test_the_plan_shows_the_launch_in_every_region(sandbox: EC2PlanningSandbox) -> None:
    planned = sandbox.plan(in_regions(sandbox, OTHER, THIRD))
    document = json.loads(json.dumps(planned.document()))
    launches = [call for call in document["calls"] if call["operation"] == "run_instances"]
    assert [call.get("region") for call in launches] == [None, OTHER, THIRD]
    assert len({call["request"]["SubnetId"] for call in launches}) == 3
    assert document["regions"] == [REGION, OTHER, THIRD]
    assert [instance_type["region"] for instance_type in document["instance_types"]] == [REGION, OTHER, THIRD]
    titles = [title for title, _ in format_calls(planned.calls())]
    last, noted = (
        f"ec2 run_instances in {THIRD}: without capacity in {REGION}: launch",
        "note that the instances are in",
    )
    (launch,) = [title for title in titles if title.startswith(last)]
    assert titles.index(f"s3 put_object: without capacity in {REGION}: {noted} {THIRD}") < titles.index(
        launch
    )
    assert any(
        title.startswith(f"ec2 create_security_group in {OTHER}: without capacity") for title in titles
    )


def test_a_note_says_what_is_transferred_between_regions(sandbox: EC2PlanningSandbox) -> None:
    (note,) = [
        warning
        for warning in sandbox.plan(in_regions(sandbox, OTHER, inputs={"training": "data"})).warnings
        if "between regions" in warning
    ]
    assert note.startswith(
        f"in {OTHER}, instances read inputs (4 B), code and checkpoints from the bucket in {REGION}"
    )
    assert not any("between regions" in warning for warning in sandbox.plan().warnings)


def test_settings_of_a_region_are_used_there_only(sandbox: EC2PlanningSandbox) -> None:
    ec2 = sandbox.emulator.client("ec2", OTHER)
    subnet = ec2.describe_subnets()["Subnets"][1]
    image = ec2.describe_images()["Images"][0]["ImageId"]
    settings = {
        "region": OTHER,
        "ami": image,
        "subnets": subnet["SubnetId"],
        "security_groups": "sg-0123456789abcdef0",
    }
    planned = sandbox.plan(in_regions(sandbox, settings))
    home, other = planned.targets
    assert (other.ami.id, [zone.subnet for zone in other.zones]) == (image, [subnet["SubnetId"]])
    assert home.ami.id != image
    assert planned.security_groups(OTHER) == ("sg-0123456789abcdef0",)
    assert planned.security_groups(REGION) != planned.security_groups(OTHER)


def test_an_entry_for_the_jobs_own_region_has_its_settings(sandbox: EC2PlanningSandbox) -> None:
    groups = {"region": REGION, "security_groups": "sg-0123456789abcdef0"}
    planned = sandbox.plan(in_regions(sandbox, OTHER, groups))
    assert planned.regions == (REGION, OTHER)
    assert planned.security_groups(REGION) == ("sg-0123456789abcdef0",)


def test_a_region_without_quota_is_left_out(quotas: RunningEmulator, sandbox: EC2PlanningSandbox) -> None:
    quotas.quotas({f"{OTHER}/{G_QUOTA}": 0})
    planned = sandbox.plan(in_regions(sandbox, OTHER, THIRD))
    assert planned.regions == (REGION, THIRD)
    (note,) = [warning for warning in planned.warnings if OTHER in warning]
    assert f"g5.xlarge in {OTHER}: VcpuLimitExceeded" in note


def test_without_quota_in_the_first_region_the_next_is_the_first(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({f"{REGION}/{G_QUOTA}": 0})
    planned = sandbox.plan(in_regions(sandbox, OTHER))
    assert (planned.region, planned.regions) == (REGION, (OTHER,))
    assert planned.bucket.region == REGION
    assert planned.offer.usd_per_hour is not None
    (launch,) = [call for call in planned.calls() if call.operation == "run_instances"]
    assert launch.region == OTHER


def test_without_quota_anywhere_all_regions_are_named(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({f"{region}/{G_QUOTA}": 0 for region in (REGION, OTHER)})
    with pytest.raises(NoCapacity) as caught:
        sandbox.plan(in_regions(sandbox, OTHER))
    assert [attempt.where for attempt in caught.value.tried] == [
        f"g5.xlarge in {REGION}",
        f"g5.xlarge in {OTHER}",
    ]
    assert f"g5.xlarge in {OTHER}: VcpuLimitExceeded" in caught.value.message
    assert f"--region {OTHER}" in (caught.value.remedy or "")


def test_a_region_without_default_vpc_is_left_out(sandbox: EC2PlanningSandbox) -> None:
    region = "ca-central-1"
    ec2 = sandbox.emulator.client("ec2", region)
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    planned = sandbox.plan(in_regions(sandbox, region))
    assert planned.regions == (REGION,)
    assert any(
        f"not tried in {region}: The account has no default VPC" in warning for warning in planned.warnings
    )


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        ("DescribeSubnets", query_error("AuthFailure", "AWS was not able to validate the credentials", 401)),
        ("DescribeSubnets", query_error("OptInRequired", "You are not subscribed to this service", 401)),
        ("GetServiceQuota", json_error("UnrecognizedClientException", "The security token is invalid")),
    ],
)
def test_a_region_that_is_not_enabled_is_left_out(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch, operation: str, answer: FakeResponse
) -> None:
    def refuse(request: Request) -> FakeResponse | None:
        return answer if request.region == OTHER else None

    with FaultyAws(sandbox.emulator.url) as faulty:
        for service in ("EC2", "SERVICE_QUOTAS"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", faulty.url)
        faulty.fault(operation, refuse, None)
        planned = sandbox.plan(in_regions(sandbox, OTHER))
    assert planned.regions == (REGION,)
    assert any(
        f"not tried in {OTHER}: the account has not enabled the region" in warning
        for warning in planned.warnings
    )


def test_an_error_in_the_jobs_own_region_ends_the_plan(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Request) -> FakeResponse | None:
        return query_error("AuthFailure", "not valid", 401) if request.region == REGION else None

    with FaultyAws(sandbox.emulator.url) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", faulty.url)
        faulty.fault("DescribeSubnets", refuse, None)
        with pytest.raises(AwsRefused, match="AuthFailure"):
            sandbox.plan(in_regions(sandbox, OTHER))


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([OTHER, OTHER], "us-west-2 is listed twice"),
        ([OTHER, "cn-north-1"], "separate AWS partitions"),
        (["us-west2"], "is not an AWS region"),
    ],
)
def test_lists_of_regions_that_make_no_sense_are_rejected(
    sandbox: EC2PlanningSandbox, regions: list[str], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        in_regions(sandbox, *regions)
    with pytest.raises(UsageError, match=message):
        plan(sandbox, sandbox.training(), regions=",".join(regions))


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ("us-gov-west-1", "cannot move from us-east-1 to us-gov-west-1"),
        ("us-west-9", "knows no AWS region us-west-9"),
    ],
)
def test_a_region_that_the_job_cannot_have_is_rejected(
    sandbox: EC2PlanningSandbox, region: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        sandbox.plan(in_regions(sandbox, region))


@pytest.mark.parametrize(
    "setting", [{"ami": "ami-0123456789abcdef0"}, {"subnets": "subnet-1"}, {"security_groups": "sg-1"}]
)
def test_settings_of_one_region_are_not_left_out_in_another(
    sandbox: EC2PlanningSandbox, setting: dict[str, str]
) -> None:
    with pytest.raises(InvalidJob, match=f"ec2.{next(iter(setting))} exists in one region only"):
        in_regions(sandbox, OTHER, ec2=setting)
    in_regions(sandbox, {"region": OTHER, **setting}, ec2=setting)


def test_the_flag_takes_precedence_and_keeps_the_files_settings(sandbox: EC2PlanningSandbox) -> None:
    job = in_regions(sandbox, THIRD, {"region": OTHER, "security_groups": "sg-0123456789abcdef0"})
    planned = plan(sandbox, job, regions=f"{OTHER}")
    assert planned.regions == (REGION, OTHER)
    assert planned.security_groups(OTHER) == ("sg-0123456789abcdef0",)
    assert plan(sandbox, job, regions="").regions == (REGION,)


def test_no_type_in_any_region_is_one_error(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(GPUproofError, match="trainium accelerators") as caught:
        sandbox.plan(in_regions(sandbox, OTHER, instance_type="trn1.2xlarge"))
    assert caught.value.message.count("trainium accelerators") == 1
