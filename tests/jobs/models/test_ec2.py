"""What a job says about EC2 alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs import Overrides, TrainingJob, override_job
from gpuproof.jobs.models.ec2 import EC2Settings
from gpuproof.jobs.script_job import NoEC2Settings


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(**{"entry_point": "train.py", "source_dir": "/src", **keys})


def test_one_subnet_needs_no_list() -> None:
    job = training(ec2={"subnets": "subnet-0a1b2c3d", "ami": "ami-0123456789abcdef0"})
    assert job.ec2.subnets == ("subnet-0a1b2c3d",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ami": "DLAMI"}, r"ec2\.ami.*'DLAMI' is not the id of a machine image"),
        ({"subnets": ["subnet_1"]}, r"ec2\.subnets.*not the id of a subnet"),
        ({"volume_size": 0}, r"ec2\.volume_size"),
        ({"key_name": "mine"}, "unknown key 'key_name' under 'ec2'"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        training(ec2=settings)


def test_flags_for_role_and_bucket_apply_to_the_backend_that_runs_the_job() -> None:
    job = override_job(training(), Overrides(role="Trainer", bucket="my-bucket"), Path("/work-dir"))
    assert (job.ec2.instance_profile, job.ec2.bucket) == ("Trainer", "my-bucket")
    assert (job.sagemaker.role, job.sagemaker.bucket) == ("Trainer", "my-bucket")


def test_an_invalid_flag_is_reported_once() -> None:
    with pytest.raises(UsageError) as caught:
        override_job(training(), Overrides(bucket="No Bucket"), Path("/work-dir"))
    assert str(caught.value).count("--bucket") == 1


def test_a_script_without_a_file_has_the_same_defaults() -> None:
    assert asdict(NoEC2Settings()) == EC2Settings().model_dump()


def test_further_regions_are_names_or_mappings() -> None:
    settings = {"regions": ["us-west-2", {"region": "eu-west-1", "ami": "ami-0123456789abcdef0"}]}
    (home, west, ireland) = training(ec2=settings).ec2.in_regions("us-east-1")
    assert (home.region, west.region, ireland.region) == ("us-east-1", "us-west-2", "eu-west-1")
    assert (home.ami, west.ami, ireland.ami) == (None, None, "ami-0123456789abcdef0")
    (only,) = training(ec2={"regions": "us-west-2"}).ec2.in_regions("us-west-2")
    assert only.region == "us-west-2"


def test_further_regions_are_other_regions_of_one_partition() -> None:
    for regions, message in (
        (["us-west-2", "us-west-2"], r"ec2\.regions\[1\].*listed twice"),
        (["us-west-2", "us-gov-west-1"], r"ec2\.regions\[1\].*separate AWS partitions"),
        ([{"ami": "ami-0123456789abcdef0"}], r"ec2\.regions\[0\]\.region' is missing"),
    ):
        with pytest.raises(InvalidJob, match=message):
            training(ec2={"regions": regions})
    with pytest.raises(InvalidJob, match=r"ec2\.regions.*no account has both cn-north-1 and us-west-2"):
        training(resources={"region": "cn-north-1"}, ec2={"regions": ["us-west-2"]})
