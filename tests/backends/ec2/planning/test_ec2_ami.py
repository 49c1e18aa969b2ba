"""Which machine image a job runs on, and in which zones."""

from __future__ import annotations

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.planning.ami import driver_need
from gpuproof.backends.ec2.planning.ami_rows import base_rows, framework_rows
from gpuproof.backends.ec2.planning.instance_types import choose_instance_types
from gpuproof.backends.ec2.planning.volume import GIB, volume_gib
from gpuproof.backends.ec2.planning.zones import ZoneFinder
from gpuproof.backends.ec2.target import ChosenAmi, Zone
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.models.script_jobs import TrainingJob
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

CATALOGUE = Catalogue.load()
PYTORCH = "pytorch"


def candidate(name: str) -> Candidate:
    return Candidate(name, CATALOGUE.instance(name), None)


def rows(framework: str, version: str | None, name: str, *, pinned: bool = False) -> list[tuple[str, str]]:
    wanted = Framework(framework, version, "", pinned=pinned)
    return [(row.version, row.arch) for row in framework_rows(wanted, candidate(name), CATALOGUE).rows]


def test_the_newest_framework_comes_first_on_a_system_that_has_been_tried() -> None:
    found = rows(PYTORCH, None, "g5.xlarge")
    assert found[:2] == [("2.12", "x86_64"), ("2.11", "x86_64")]
    assert found[-1] == ("2.13", "x86_64"), "Ubuntu 26.04"
    assert rows(PYTORCH, "2.13", "g5.xlarge", pinned=True) == [("2.13", "x86_64")]


def test_a_requested_version_is_the_only_one() -> None:
    assert rows(PYTORCH, "2.10.1", "g5.xlarge", pinned=True) == [("2.10", "x86_64")]
    assert rows(PYTORCH, "1.9", "g5.xlarge", pinned=True) == []


def test_a_version_that_requirements_pin_may_be_installed_on_another() -> None:
    found = framework_rows(Framework(PYTORCH, "2.3", ""), candidate("g5.xlarge"), CATALOGUE)
    assert (found.rows[0].version, found.version) == ("2.12", "2.12")


def test_arm_instances_have_arm_images() -> None:
    assert {arch for _, arch in rows(PYTORCH, None, "g5g.xlarge")} == {"arm64"}


def test_an_image_that_does_not_list_the_family_is_left_out() -> None:
    assert rows(PYTORCH, "2.9", "g6f.large", pinned=True) == []


def test_the_images_for_volta_are_too_old_for_frameworks() -> None:
    found = base_rows(candidate("p3.2xlarge"), CATALOGUE)
    assert found.rows == ()
    assert any("Python is older than 3.9" in reason for reason in found.rejected)
    assert any("ec2: {container: true}" in reason for reason in found.rejected)


@pytest.mark.parametrize("name", ["p3.2xlarge", "p3dn.24xlarge", "g3.4xlarge"])
def test_containers_for_old_gpus_run_on_the_base_image_with_a_newer_python(name: str) -> None:
    (row,) = base_rows(candidate(name), CATALOGUE, container=True).rows
    assert (row.os, row.kernel_module, row.python) == ("amzn2", "proprietary", "/usr/bin/python3.10")
    assert row.name_pattern.endswith("Version 71*")


def test_containers_for_newer_gpus_do_not_get_the_old_image() -> None:
    assert "amzn2" not in {
        row.os for row in base_rows(candidate("g5.xlarge"), CATALOGUE, container=True).rows
    }


def test_a_type_without_a_gpu_has_images_too() -> None:
    assert base_rows(candidate("m5.xlarge"), CATALOGUE).rows


@pytest.mark.parametrize("given", ["g5.xlarge", "ml.g5.xlarge"])
def test_sagemakers_name_of_a_type_is_accepted(given: str) -> None:
    job = TrainingJob(entry_point="train.py", instance_type=given, fallbacks=("ml.g5.xlarge", "g6.xlarge"))
    choice = choose_instance_types(job, CATALOGUE, "us-east-1")
    assert [candidate.name for candidate in choice.candidates] == ["g5.xlarge", "g6.xlarge"]
    assert choice.candidates[0].price is not None


def test_a_type_that_is_sold_by_reservation_only_is_rejected() -> None:
    reserved = next(
        gpu_instance.name
        for gpu_instance in CATALOGUE.tables.gpu_instances.values()
        if gpu_instance.usage == ("capacity-block",)
    )
    job = TrainingJob(entry_point="train.py", instance_type=reserved)
    with pytest.raises(InvalidJob, match=f"EC2 sells {reserved} only as capacity-block"):
        choose_instance_types(job, CATALOGUE, "us-east-1")


def test_the_volume_holds_the_snapshot_and_the_inputs() -> None:
    ami = ChosenAmi("ami-1", "", "", "x86_64", snapshot_gb=75)
    small = volume_gib(ami, None, 0, local_disk=False)
    assert small > 75
    assert volume_gib(ami, None, 10 * GIB, local_disk=False) == small + 10
    assert volume_gib(ami, None, 10 * GIB, local_disk=True) == small + 10
    assert volume_gib(ami, None, 501 * GIB, local_disk=True) == small
    assert volume_gib(ami, None, 501 * GIB, local_disk=False) == small + 501
    assert volume_gib(ami, 75, 10 * GIB, local_disk=False) == 75


@pytest.mark.slow
def test_cheap_zones_are_tried_first(sandbox: EC2PlanningSandbox) -> None:
    zones = sandbox.plan().target.zones
    finder = ZoneFinder(sandbox.aws, zones)
    prices = {zones[1].name: 0.3, zones[2].name: 0.2}
    found = finder.offering("g5.xlarge", prices)
    assert [zone.name for zone in found[:3]] == [zones[2].name, zones[1].name, zones[0].name]


@pytest.mark.slow
def test_a_zone_that_does_not_offer_the_type_is_left_out(sandbox: EC2PlanningSandbox) -> None:
    zones = [Zone("us-east-1a", "subnet-1", "vpc-1"), Zone("us-east-1zz", "subnet-2", "vpc-1")]
    assert ZoneFinder(sandbox.aws, zones).offering("g5.xlarge", {}) == (zones[0],)


@pytest.mark.slow
def test_an_account_without_a_default_vpc_is_told_what_to_do(sandbox: EC2PlanningSandbox) -> None:
    region = "eu-west-3"
    ec2 = sandbox.emulator.client("ec2", region)
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    aws = Aws(session=sandbox.emulator.session, sleep=lambda _seconds: None, region=region)
    with pytest.raises(UsageError, match="no default VPC in eu-west-3") as caught:
        ZoneFinder.find(aws, ())
    assert "gpuproof setup" in (caught.value.remedy or "")


@pytest.mark.slow
def test_an_image_of_the_jobs_own_is_taken(sandbox: EC2PlanningSandbox) -> None:
    image = sandbox.plan().target.ami.id
    ami = sandbox.plan(sandbox.training(ec2={"ami": image})).target.ami
    assert (ami.id, ami.because, ami.row) == (image, "the job's own", None)
    assert ami.pythons == ("/opt/pytorch/bin",)


@pytest.mark.slow
def test_without_the_parameter_the_image_is_looked_for_by_name(sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.faults("access-denied,service=ssm,operation=GetParameter")
    with pytest.raises(InvalidJob, match=r"has no AMI for g5\.xlarge of these names: Deep Learning OSS"):
        sandbox.plan()
    assert "DescribeImages" in sandbox.emulator.operations()


@pytest.mark.slow
def test_a_script_without_a_framework_gets_the_base_image(sandbox: EC2PlanningSandbox) -> None:
    sandbox.write("src/train.py", "print('plain')\n")
    ami = sandbox.plan(sandbox.processing(instance_type="m5.xlarge")).target.ami
    assert "Base" in ami.name
    assert (ami.because, ami.pythons) == ("no framework is imported", ())


@pytest.mark.slow
def test_a_framework_without_an_image_is_installed_from_requirements(sandbox: EC2PlanningSandbox) -> None:
    sandbox.write("src/train.py", "import tensorflow\n")
    job = sandbox.training(instance_type="g5g.xlarge")
    with pytest.raises(InvalidJob, match=r"no AWS Deep Learning AMI with tensorflow for g5g\.xlarge"):
        sandbox.plan(job)
    sandbox.write("src/requirements.txt", "tensorflow>=2.18\n")
    plan = sandbox.plan(job)
    assert "ARM64 Base" in plan.target.ami.name
    assert any("it has no GPU build for these processors" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("requirement", "arch", "driver"),
    [("torch==2.9", "x86_64", "525.60.13"), ("torch==1.0.1", "x86_64", None), ("torch", "x86_64", None)],
)
def test_the_driver_for_a_framework_is_that_of_its_least_demanding_build(
    requirement: str, arch: str, driver: str | None
) -> None:
    need = driver_need(requirement, arch, CATALOGUE)
    assert (need.driver if need is not None else None) == driver


def test_a_build_without_cuda_needs_no_driver() -> None:
    assert driver_need("tensorflow==2.21", "arm64", CATALOGUE) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name", "reasons", "remedies"),
    [
        (
            "import torch\n",
            "p3dn.24xlarge",
            ["V100-32GB needs NVIDIA's proprietary kernel module, of driver 580 or older"],
            ["Choose an AMI with such a driver, the AWS CLI and Python 3.9", "--instance-type p4d.24xlarge"],
        ),
        (
            "import torch\n",
            "g4ad.xlarge",
            ["g4ad.xlarge is no longer available", "V520 is a GPU of AMD"],
            ["Use another instance type:\n--instance-type g4dn.xlarge"],
        ),
        (
            "import tensorflow\n",
            "g5g.xlarge",
            ["tensorflow has no GPU build for arm64"],
            ["use another instance type."],
        ),
        (
            "print('plain')\n",
            "p2.xlarge",
            ["p2.xlarge is no longer available"],
            ["--instance-type g4dn.xlarge"],
        ),
    ],
)
def test_why_a_type_has_no_image_and_what_to_do(
    sandbox: EC2PlanningSandbox, script: str, name: str, reasons: list[str], remedies: list[str]
) -> None:
    sandbox.write("src/train.py", script)
    with pytest.raises(InvalidJob, match=f"no AWS Deep Learning AMI.* for {name}") as caught:
        sandbox.plan(sandbox.training(instance_type=name))
    for expected in reasons:
        assert expected in caught.value.message
    for expected in remedies:
        assert expected in (caught.value.remedy or "")
    # No base image exists either that a package could be installed on, or the package has no GPU build.
    assert "requirements.txt" not in (caught.value.remedy or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "warned"), [("g7e.2xlarge", True), ("g5.xlarge", False), ("g6f.large", False)]
)
def test_a_family_that_aws_lists_for_no_image_with_the_framework_is_warned_of(
    sandbox: EC2PlanningSandbox, name: str, *, warned: bool
) -> None:
    warnings = sandbox.plan(sandbox.training(instance_type=name)).warnings
    assert (
        any(
            f"name {name.partition('.')[0]} for none of its AMIs with torch" in warning
            for warning in warnings
        )
        == warned
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "compiled"), [("p5.4xlarge", True), ("g6.xlarge", False)])
def test_a_framework_without_machine_code_for_the_gpu_starts_slowly(
    sandbox: EC2PlanningSandbox, name: str, *, compiled: bool
) -> None:
    sandbox.write("src/train.py", "import tensorflow\n")
    warnings = sandbox.plan(sandbox.training(instance_type=name)).warnings
    assert (
        any("has only PTX" in warning and "takes minutes, and is billed" in warning for warning in warnings)
        == compiled
    )


@pytest.mark.slow
def test_further_volumes_of_an_image_end_with_the_instance(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = sandbox.plan().target.ami.id
    described = sandbox.aws.image(image)
    assert described is not None
    more = [
        {"DeviceName": "/dev/sdb", "Ebs": {"VolumeSize": 50, "DeleteOnTermination": False}},
        {"DeviceName": "/dev/sdc", "VirtualName": "ephemeral0"},
    ]
    mappings = [*described["BlockDeviceMappings"], *more]
    monkeypatch.setattr(sandbox.aws, "image", lambda _: {**described, "BlockDeviceMappings": mappings})
    calls = sandbox.plan(sandbox.training(ec2={"ami": image})).calls()
    (launch,) = [call.request for call in calls if call.operation == "run_instances"]
    root, other = launch["BlockDeviceMappings"]
    assert root["DeviceName"] == described["RootDeviceName"]
    assert other == {"DeviceName": "/dev/sdb", "Ebs": {"DeleteOnTermination": True}}
