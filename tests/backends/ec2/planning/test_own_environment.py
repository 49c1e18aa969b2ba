"""Environments that uv makes on the instance, for versions of frameworks that no AMI has."""

from __future__ import annotations

import pytest

from gpuproof.backends.ec2.planning.own_environment import own_environment
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

CATALOGUE = Catalogue.load()


def planned(
    name: str, version: str | None, instance: str = "g5.xlarge"
) -> tuple[str, tuple[str, ...]] | None:
    candidate = Candidate(instance, CATALOGUE.instance(instance), None)
    found = own_environment(Framework(name, version, "", pinned=True), candidate, CATALOGUE)
    return None if found is None else (found.python, found.packages)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("pytorch", "2.3", ("3.12", ("torch==2.3.*", "numpy"))),
        ("pytorch", "2.1.2", ("3.11", ("torch==2.1.2", "numpy<2"))),
        ("tensorflow", "2.15", ("3.11", ("tensorflow[and-cuda]==2.15.*",))),
    ],
)
def test_a_known_version_gets_an_environment_with_a_python_that_it_supports(
    name: str, version: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert planned(name, version) == expected


@pytest.mark.parametrize(
    ("name", "version", "instance", "why"),
    [
        ("pytorch", None, "g5.xlarge", "no version is named"),
        ("pytorch", "1.5", "g5.xlarge", "the catalogue has no build"),
        ("pytorch", "2.9.0+cu126", "g5.xlarge", "it is not on PyPI"),
        ("tensorflow", "2.10", "g5.xlarge", "its wheels bring no CUDA"),
        ("tensorflow", "2.20", "g5g.xlarge", "the arm64 wheel is CPU only"),
        ("pytorch", "2.3", "p6-b200.48xlarge", "it has no kernels for the GPU"),
        ("huggingface", "4.56", "g5.xlarge", "it is the version of Transformers"),
    ],
)
def test_others_get_none(name: str, version: str | None, instance: str, why: str) -> None:
    assert planned(name, version, instance) is None, why


@pytest.mark.slow
def test_a_job_with_such_a_version_is_planned_on_an_ami_without_a_framework(
    sandbox: EC2PlanningSandbox,
) -> None:
    plan = sandbox.plan(sandbox.training(framework="pytorch", framework_version="2.3"))
    parameters = plan.host_parameters(plan.target)
    assert (parameters.env_python, parameters.env_packages) == ("3.12", ("torch==2.3.*", "numpy"))
    assert parameters.pythons == ()
    assert "Base" in plan.target.ami.name
    assert any("uv installs torch==2.3.*" in note for note in plan.warnings)
    assert parameters.min_driver_for.startswith("torch 2.3")


@pytest.mark.slow
def test_so_is_a_version_that_only_requirements_pin(sandbox: EC2PlanningSandbox) -> None:
    sandbox.write("src/requirements.txt", "torch==2.3.1\n")
    sandbox.write("src/train.py", "import torch\n")
    plan = sandbox.plan()
    assert plan.target.ami.environment is not None
    assert plan.target.ami.environment.packages == ("torch==2.3.1", "numpy")
