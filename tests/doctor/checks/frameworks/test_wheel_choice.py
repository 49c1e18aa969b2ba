"""Which wheel suits a driver and GPUs, and the arguments of pip."""

import pytest

from gpuproof.doctor.checks.frameworks.wheel_choice import (
    WheelTarget,
    find_suitable_build,
    pip_arguments,
    pip_command,
    reinstall_arguments,
)
from support.framework_builds import CATALOGUE


def chosen(
    framework: str, version: str, cuda: tuple[int, int] | None, *gpus: str, arch: str = "x86_64"
) -> str:
    models = tuple(CATALOGUE.tables.gpus[name] for name in gpus)
    return str(find_suitable_build(CATALOGUE, framework, version, WheelTarget(arch, cuda, models)))


@pytest.mark.parametrize(
    ("version", "cuda", "gpu", "build"),
    [
        ("2.11.0", (13, 0), "A10G", "torch 2.11"),
        ("2.11.0+cpu", (13, 0), "A10G", "torch 2.11"),
        ("2.11.0", (12, 4), "A10G", "torch 2.11+cu126"),
        ("2.11.0", (12, 8), "V100-16GB", "torch 2.11+cu126"),
        ("2.11.0", (13, 0), "V100-16GB", "torch 2.11+cu126"),
        ("2.9.1", (12, 2), "T4", "torch 2.9"),
        ("2.15.0", (12, 8), "H100", "torch 2.13+cu126"),
        ("2.7.0", (13, 0), "B200", "torch 2.7+cu128"),
        ("2.3.0", (11, 8), "T4", "torch 2.3+cu118"),
    ],
)
def test_the_wheel_of_this_version_or_the_newest_older_one(
    version: str, cuda: tuple[int, int], gpu: str, build: str
) -> None:
    assert chosen("torch", version, cuda, gpu) == build


def test_several_kinds_of_gpu_must_all_be_served() -> None:
    assert chosen("torch", "2.11.0", (13, 0), "A10G", "V100-16GB") == "torch 2.11+cu126"


def test_for_some_machines_there_is_none() -> None:
    assert chosen("torch", "2.11.0", (9, 0), "K80") == "None"
    assert chosen("tensorflow", "2.21.0", (13, 0), "T4G", arch="arm64") == "None"


def test_a_version_of_tomorrow_gets_the_newest_that_is_known() -> None:
    assert chosen("torch", "2.99.0", (13, 2), "H100") == "torch 2.15"


def test_pip_gets_the_index_and_the_same_build_of_companion_packages() -> None:
    build = CATALOGUE.build("torch==2.11+cu126")
    assert build is not None
    assert pip_arguments(build, "2.11.1+cpu", [("torchvision", "0.26.1+cpu")]) == [
        "torch==2.11.1+cu126",
        "torchvision==0.26.1+cu126",
        "--index-url",
        "https://download.pytorch.org/whl/cu126",
    ]


def test_with_another_version_companion_packages_find_their_own() -> None:
    build = CATALOGUE.build("torch==2.13+cu126")
    assert build is not None
    assert pip_arguments(build, "2.15.0", [("torchvision", "0.30.0")])[:2] == [
        "torch==2.13.*",
        "torchvision",
    ]


def test_tensorflow_is_installed_with_its_libraries() -> None:
    build = CATALOGUE.build("tensorflow==2.21")
    assert build is not None
    assert pip_command(pip_arguments(build, "2.21.0")) == "pip install 'tensorflow[and-cuda]==2.21.0'"
    assert pip_command(pip_arguments(build, "2.99.0")) == "pip install 'tensorflow[and-cuda]==2.21.*'"


@pytest.mark.parametrize(
    ("python", "build"), [("3.9.18", "torch 1.12"), ("3.11.7", "None"), ("", "torch 1.12")]
)
def test_a_wheel_that_does_not_install_on_this_python_is_none(python: str, build: str) -> None:
    target = WheelTarget("x86_64", (10, 2), (CATALOGUE.tables.gpus["K80"],), python)
    assert str(find_suitable_build(CATALOGUE, "torch", "2.11.0", target)) == build


@pytest.mark.parametrize(
    ("framework", "version", "command"),
    [
        (
            "torch",
            "2.11.0+cu126",
            "pip install --force-reinstall torch==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126",
        ),
        (
            "torch",
            "2.11.0+cpu",
            "pip install --force-reinstall torch==2.11.0+cpu --index-url https://download.pytorch.org/whl/cpu",
        ),
        ("torch", "2.11.0", "pip install --force-reinstall torch==2.11.0"),
        ("torch", "2.6.0a0+ecf3bae", "pip install --force-reinstall torch==2.6.0a0"),
        ("tensorflow", "2.21.0", "pip install --force-reinstall tensorflow==2.21.0"),
    ],
)
def test_a_reinstallation_keeps_the_cuda_of_the_build(framework: str, version: str, command: str) -> None:
    assert pip_command(reinstall_arguments(framework, version)) == command
