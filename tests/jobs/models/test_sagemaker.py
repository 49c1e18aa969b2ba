"""What a job says about SageMaker alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs import Overrides, TrainingJob, load_jobs, override_job
from gpuproof.units import Duration

HERE = Path(__file__).parents[1]
CWD = Path("/work-dir")


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(**{"entry_point": "train.py", "source_dir": "/src", **keys})


def test_defaults_and_a_jobs_own_settings_are_one_mapping() -> None:
    train = load_jobs(HERE / "valid" / "sagemaker.yaml")["train"]
    assert train.sagemaker.bucket == "another-bucket"
    assert train.sagemaker.subnets == ("subnet-0a1b2c3d",)
    assert train.sagemaker.security_groups == ("sg-0a1b2c3d",)
    assert train.sagemaker.max_wait == Duration(12 * 3600)
    assert train.sagemaker.metrics == {"loss": "loss=([0-9.]+)"}
    assert train.fallbacks == ("ml.g6.xlarge", "ml.g5.2xlarge")


def test_subnets_without_security_groups_are_refused() -> None:
    with pytest.raises(InvalidJob, match=r"sagemaker\.security_groups.*together with subnets"):
        training(sagemaker={"subnets": ["subnet-1"]})


def test_a_key_that_belongs_there_is_shown_its_place() -> None:
    with pytest.raises(InvalidJob, match="it belongs under 'sagemaker'"):
        training(role="Training")


def test_the_apis_own_name_of_a_setting_is_understood() -> None:
    with pytest.raises(InvalidJob, match="did you mean 'keep_alive'"):
        training(sagemaker={"keep_alive_period_in_seconds": 60})


def test_flags_win_over_the_file() -> None:
    job = training(
        tags={"team": "a", "kept": "b"},
        fallbacks=["ml.g6.xlarge"],
        sagemaker={"role": "Old", "bucket": "old-bucket", "volume_size": 50},
        resources={"memory": "16GiB+"},
    )
    changes = Overrides(
        framework="pytorch",
        framework_version="2.8",
        image="mine:1",
        region="eu-west-1",
        spot=True,
        fallbacks=["ml.g5.2xlarge", "ml.g4dn.xlarge"],
        tags=["team=c=d"],
        role="New",
        bucket="new-bucket",
        max_wait="12h",
        keep_alive="15min",
    )
    changed = override_job(job, changes, CWD)
    assert (changed.framework, changed.framework_version, changed.image) == ("pytorch", "2.8", "mine:1")
    assert (changed.resources.region, changed.resources.spot) == ("eu-west-1", True)
    assert str(changed.resources.memory) == "16GiB+"
    assert changed.fallbacks == ("ml.g5.2xlarge", "ml.g4dn.xlarge")
    assert changed.tags == {"team": "c=d", "kept": "b"}
    own = changed.sagemaker
    assert (own.role, own.bucket, own.volume_size) == ("New", "new-bucket", 50)
    assert (own.max_wait, own.keep_alive) == (Duration(12 * 3600), Duration(900))


def test_no_spot_takes_spot_back() -> None:
    assert (
        override_job(training(resources={"spot": True}), Overrides(spot=False), CWD).resources.spot is False
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Overrides(role="a role"), "--role: 'a role'"),
        (Overrides(bucket="My_Bucket"), "--bucket: 'My_Bucket'"),
        (Overrides(region="mars"), "--region: 'mars'"),
        (Overrides(keep_alive="7h"), "--keep-alive: 7h"),
        (Overrides(max_wait="soon"), "--max-wait"),
        (Overrides(fallbacks=["G5"]), "--fallback: 'G5'"),
        (Overrides(tags=["team"]), "--tag 'team' is not NAME=VALUE"),
        (Overrides(tags=["aws:x=1"]), "--tag"),
    ],
)
def test_a_wrong_flag_is_named(changes: Overrides, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        override_job(training(), changes, CWD)
    assert expected in raised.value.message
