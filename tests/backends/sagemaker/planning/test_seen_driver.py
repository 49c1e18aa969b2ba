"""The drivers of earlier jobs' hosts, and the default image that follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.sagemaker.planning.image import choose_image
from gpuproof.backends.sagemaker.planning.seen_driver import seen_drivers
from gpuproof.backends.sagemaker.target import ChosenImage
from gpuproof.backends.sagemaker.tracking.records import TAG_DRIVER, TAG_INSTANCE, TAG_RUN, verdict_tags
from gpuproof.catalogue import Catalogue
from gpuproof.jobs import TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:"
CATALOGUE = Catalogue.load()


class Account(Aws):
    """Jobs with their tags.

    Args:
        jobs: day of the month, instance, driver.
    """

    def __init__(self, *jobs: tuple[int, str, str], code: str | None = None) -> None:
        super().__init__(region="us-east-1")
        self._jobs, self._code = jobs, code

    def tagged(
        self, key: str, values: Sequence[str] = (), resource_types: Sequence[str] = ()
    ) -> Iterator[tuple[str, dict[str, str]]]:
        if self._code is not None:
            raise AwsRefused("GetResources was refused.", code=self._code)
        assert (key, values) == (TAG_DRIVER, ())
        assert resource_types == ("sagemaker:training-job",)
        for day, instance, driver in self._jobs:
            name = f"train-202605{day:02}-120000-abcd"
            yield ARN + name, {TAG_RUN: name, TAG_INSTANCE: instance, TAG_DRIVER: driver}


def test_a_familys_driver_is_the_oldest_of_its_newest_jobs() -> None:
    account = Account(
        (1, "ml.g5.xlarge", "470.256.02"),
        (2, "ml.g5.xlarge", "570.172.08"),
        (5, "2 x ml.g5.12xlarge", "580.95.05"),
        (4, "ml.g5.2xlarge", "550.163.01"),
        (3, "ml.p5.48xlarge", "580.95.05"),
    )
    assert seen_drivers(account, "training") == {"g5": 550, "p5": 580}


def test_tags_that_say_nothing_are_left_out() -> None:
    assert seen_drivers(Account((1, "", "580.95.05"), (2, "ml.g5.xlarge", "?")), "training") == {}


def test_a_user_who_may_not_read_tags_gets_the_documented_driver() -> None:
    assert seen_drivers(Account(code="AccessDeniedException"), "training") == {}
    with pytest.raises(AwsRefused):
        seen_drivers(Account(code="ThrottlingException"), "training")


def chosen(framework: Framework, seen: dict[str, int]) -> ChosenImage:
    job = TrainingJob(entry_point="train.py", instance_type="ml.g5.xlarge")
    candidate = Candidate("ml.g5.xlarge", CATALOGUE.instance("ml.g5.xlarge"), None)
    return choose_image(job, framework, candidate, CATALOGUE, "us-east-1", seen)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({}, "runs on driver 535, the oldest that is documented"),
        ({"g5": 580}, "runs on driver 580, which jobs of"),
    ],
)
def test_the_plan_says_on_which_driver_the_default_runs(seen: dict[str, int], words: str) -> None:
    image = chosen(Framework("pytorch", None, "framework: pytorch"), seen)
    assert image.because.startswith("framework: pytorch; CUDA 13.3 ")
    assert words in image.because


def test_an_older_driver_than_documented_gets_an_older_image() -> None:
    image = chosen(Framework("pytorch", None, "framework: pytorch"), {"g5": 470})
    assert image.row is not None
    assert image.row.cuda.startswith("12.")
    assert "driver 470, which jobs of this account had on g5" in image.because
    assert "no longer patches" in (image.note or "")


def test_a_version_that_the_hosts_do_not_run_is_a_warning() -> None:
    image = chosen(Framework("pytorch", "2.13", "framework_version", pinned=True), {"g5": 470})
    assert image.because == "framework_version"
    assert "CUDA 13.3 of the image does not run on driver 470" in (image.note or "")
    assert chosen(Framework("pytorch", "2.13", "framework_version", pinned=True), {}).note is None


@pytest.mark.parametrize(
    ("version", "tag"),
    [("580.95.05", "580.95.05"), ("570.172.08, 580.95.05", "570.172.08"), (None, None), ("", None)],
)
def test_a_verdict_leaves_the_driver_as_a_tag(version: str | None, tag: str | None) -> None:
    verdict: dict[str, Any] = {"outcome": "used", "gpu_requirement_met": True, "driver_version": version}
    assert verdict_tags(verdict).get(TAG_DRIVER) == tag
