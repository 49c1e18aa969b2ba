"""Jobs in a container image: which image, which AMI below it, and what cannot run is rejected."""

from __future__ import annotations

import json

import pytest

from gpuproof.backends.ec2.planning.ami_rows import base_rows
from gpuproof.backends.ec2.planning.container_image import container_image
from gpuproof.backends.ec2.target import DriverNeed
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import TrainingJob
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

ECR = "763104351884.dkr.ecr.{}.amazonaws.com"
TORCH = f"{ECR.format('us-east-1')}/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-ec2"


def candidate(name: str) -> Candidate:
    return Candidate(name, Catalogue.load().instance(name), None)


def job(**keys: object) -> TrainingJob:
    return TrainingJob.model_validate({"entry_point": "train.py", "name": "small", **keys})


def test_a_job_with_an_image_gets_a_base_ami_with_a_driver_for_its_cuda(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(image=TORCH))
    target = plan.target
    assert target.container is not None
    assert (target.container.uri, target.container.cuda) == (TORCH, "13.0")
    assert target.ami.row is not None
    assert target.ami.row.framework == ""
    parameters = plan.host_parameters(target)
    assert (parameters.image, parameters.pythons, parameters.env_packages) == (TORCH, (), ())
    assert parameters.min_driver.startswith("580")
    assert parameters.min_driver_for == "the image's CUDA 13.0"
    assert ("container", f"{TORCH} (the job's own)") in list(plan.describe())
    assert any("gpuproof iam policy --on ec2 --role" in note for note in plan.warnings)
    shown = json.loads(json.dumps(plan.document()))
    assert shown["instance_types"][0]["container"] == TORCH


def test_the_volume_has_room_for_the_image(sandbox: EC2PlanningSandbox) -> None:
    with_image = sandbox.plan(sandbox.training(image=TORCH)).target
    without = sandbox.plan(sandbox.training(framework="pytorch")).target
    assert (
        with_image.volume_gb - with_image.ami.snapshot_gb == without.volume_gb - without.ami.snapshot_gb + 60
    )


def test_an_image_of_an_unknown_registry_has_no_facts_and_no_notes(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(image="ghcr.io/someone/something:1"))
    container = plan.target.container
    assert container is not None
    assert (container.row, container.cuda, container.notes) == (None, "", ())
    assert plan.host_parameters(plan.target).min_driver == ""


def test_the_setting_container_takes_awss_image_for_the_framework() -> None:
    chosen = container_image(
        job(ec2={"container": True}),
        Framework("pytorch", "2.9", "because", pinned=True),
        candidate("g5.xlarge"),
        Catalogue.load(),
        "us-west-2",
    )
    assert chosen is not None
    assert chosen.uri == f"{ECR.format('us-west-2')}/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-ec2"


def test_the_setting_container_needs_a_framework_that_aws_has_an_image_of() -> None:
    own = job(ec2={"container": True})
    with pytest.raises(InvalidJob, match="uses no framework"):
        container_image(own, None, candidate("g5.xlarge"), Catalogue.load(), "us-east-1")
    old = Framework("pytorch", "1.2", "because", pinned=True)
    with pytest.raises(InvalidJob, match=r"no AWS Deep Learning Container with pytorch 1\.2"):
        container_image(own, old, candidate("g5.xlarge"), Catalogue.load(), "us-east-1")


def test_without_the_setting_the_job_runs_in_the_ami() -> None:
    torch = Framework("pytorch", None, "because")
    assert container_image(job(), torch, candidate("g5.xlarge"), Catalogue.load(), "us-east-1") is None


def test_a_short_tag_of_an_aws_image_names_its_cuda() -> None:
    short = f"{ECR.format('us-east-1')}/pytorch-training:2.9-gpu-py312-cu130-ubuntu22.04-ec2-v1"
    chosen = container_image(job(image=short), None, candidate("g5.xlarge"), Catalogue.load(), "us-east-1")
    assert chosen is not None
    assert (chosen.row, chosen.cuda) == (None, "13.0")


def test_an_image_of_another_region_is_used_as_it_is_and_the_near_one_is_named() -> None:
    chosen = container_image(job(image=TORCH), None, candidate("g5.xlarge"), Catalogue.load(), "us-west-2")
    assert chosen is not None
    assert chosen.uri == TORCH
    near = TORCH.replace("us-east-1", "us-west-2")
    assert any(f"the same image is {near}" in note for note in chosen.notes)


def test_an_image_for_another_processor_is_rejected() -> None:
    with pytest.raises(InvalidJob, match=r"is for x86_64, and g5g\.xlarge has arm64 processors"):
        container_image(job(image=TORCH), None, candidate("g5g.xlarge"), Catalogue.load(), "us-east-1")


def test_a_cpu_image_on_a_gpu_instance_is_a_warning() -> None:
    cpu = f"{ECR.format('us-east-1')}/pytorch-training:2.9.0-cpu-py312-ubuntu22.04-ec2"
    chosen = container_image(job(image=cpu), None, candidate("g5.xlarge"), Catalogue.load(), "us-east-1")
    assert chosen is not None
    assert any("will not see the GPU of g5.xlarge" in note for note in chosen.notes)


def test_amis_with_an_older_driver_than_the_image_needs_are_left_out() -> None:
    need = DriverNeed("999.0", "the image's CUDA 99.0")
    rows = base_rows(candidate("g5g.xlarge"), Catalogue.load(), need)
    assert rows.rows == ()
    assert any("the image's CUDA 99.0 needs driver 999.0 or later" in reason for reason in rows.rejected)
