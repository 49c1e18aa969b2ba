"""Which GPUs a job asks for."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus, expected_gpus
from gpuproof.catalogue import Catalogue
from gpuproof.jobs.models.script_jobs import ProcessingJob, TrainingJob


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def expected(catalogue: Catalogue, **keys: Any) -> ExpectedGpus:
    return expected_gpus(TrainingJob(entry_point="train.py", **keys), catalogue)


def test_a_job_without_resources_expects_nothing(catalogue: Catalogue) -> None:
    assert expected(catalogue) == ExpectedGpus(None)


def test_an_instance_type_expects_its_gpus(catalogue: Catalogue) -> None:
    assert expected(catalogue, instance_type="ml.g5.12xlarge") == ExpectedGpus(
        4, "A10G", "instance_type: ml.g5.12xlarge"
    )


def test_an_ec2_type_expects_its_gpus_too(catalogue: Catalogue) -> None:
    assert expected(catalogue, instance_type="g5.xlarge").count == 1


def test_an_instance_type_without_gpu_expects_none_with_a_note(catalogue: Catalogue) -> None:
    assert expected(catalogue, instance_type="ml.m5.large") == ExpectedGpus(
        0, None, "instance_type: ml.m5.large has no GPU"
    )


def test_a_part_of_a_gpu_is_one_gpu(catalogue: Catalogue) -> None:
    assert expected(catalogue, instance_type="g6f.large").count == 1


def test_an_unknown_type_expects_nothing_with_a_note(catalogue: Catalogue) -> None:
    found = expected(catalogue, instance_type="ml.q9.huge")
    assert (found.count, found.unknown) == (None, "ml.q9.huge")
    assert "does not know" in found.because


@pytest.mark.parametrize(
    ("resources", "count", "name"),
    [
        ({"gpu": "A10G"}, 1, "A10G"),
        ({"gpu": "A10G:2"}, 2, "A10G"),
        ({"gpu": "A10G:2..4"}, 2, "A10G"),
        ({"gpu": 3}, 3, None),
        ({"gpu_memory": "24GiB+"}, 1, None),
        ({"memory": "64GiB+"}, None, None),
    ],
)
def test_resources_expect_at_least_what_they_ask_for(
    catalogue: Catalogue, resources: dict[str, Any], count: int | None, name: str | None
) -> None:
    found = expected(catalogue, resources=resources)
    assert (found.count, found.name) == (count, name)


def test_requiring_a_gpu_expects_one(catalogue: Catalogue) -> None:
    assert expected(catalogue, require_gpu=True) == ExpectedGpus(1, None, "require_gpu: true")


def test_the_instance_type_goes_before_the_resources(catalogue: Catalogue) -> None:
    assert expected(catalogue, instance_type="ml.g5.12xlarge", resources={"gpu_memory": "16GiB+"}).count == 4


def test_processing_jobs_are_read_the_same(catalogue: Catalogue) -> None:
    job = ProcessingJob(entry_point="clean.py", instance_type="ml.g5.xlarge")
    assert expected_gpus(job, catalogue).count == 1
