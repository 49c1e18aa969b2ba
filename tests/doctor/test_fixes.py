"""What --fix may change, and what it never changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuproof.doctor.fixes import FixPlan, plan_fixes
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.registry import CHECKS
from gpuproof.doctor.runner import examine
from gpuproof.gpu.framework_probe import Packages

pytestmark = pytest.mark.slow


@pytest.fixture
def plan(scenario_machine: Callable[[str], Machine]):
    def make(name: str, **packages: object) -> tuple[FixPlan, str]:
        machine = scenario_machine(name)
        report = examine(machine, CHECKS)
        changed: Packages = replace(machine.packages, **packages)  # pyright: ignore[reportArgumentType]
        machine.__dict__["packages"] = changed
        return plan_fixes(report, machine), machine.python

    return make


def test_a_cpu_build_is_replaced_by_the_one_that_runs_here(plan) -> None:
    found, python = plan("torch_cpu_quick")
    (fix,) = found.fixes
    assert fix.codes == ("D402",)
    assert fix.command == (
        python,
        *("-m", "pip", "install", "torch==2.11.0+cu130", "torchvision==0.26.0+cu130"),
        *("--index-url", "https://download.pytorch.org/whl/cu130"),
    )


def test_tensorflow_gets_its_libraries(plan) -> None:
    found, python = plan("tensorflow_without_and_cuda")
    assert [str(fix) for fix in found.fixes] == [f"{python} -m pip install 'tensorflow[and-cuda]==2.21.0'"]


def test_tensorflow_cpu_goes_before_tensorflow_comes(plan) -> None:
    found, _ = plan("tensorflow_cpu_beside_torch")
    assert [fix.command[2:5] for fix in found.fixes] == [
        ("pip", "uninstall", "-y"),
        ("pip", "install", "tensorflow[and-cuda]==2.21.0"),
    ]


def test_a_build_that_is_too_new_for_the_driver_is_replaced_by_an_older_one(plan) -> None:
    found, _ = plan("default_torch_on_an_older_driver_quick")
    assert "torch==2.11.0+cu126" in found.fixes[0].command


@pytest.mark.parametrize(
    ("name", "codes", "arguments"),
    [
        ("numpy_2_with_an_old_torch_quick", ("D423",), "'numpy<2'"),
        ("cudnn_other_than_pinned", ("D422",), "nvidia-cudnn-cu13==9.19.0.56 triton==3.6.0"),
        (
            "torchvision_for_another_cuda",
            ("D421",),
            "--force-reinstall torch==2.11.0+cu130 torchvision torchaudio --index-url https://download.pytorch.org/whl/cu130",
        ),
        (
            "torchvision_for_another_torch",
            ("D420",),
            "--force-reinstall torch==2.11.0+cu130 torchvision --index-url https://download.pytorch.org/whl/cu130",
        ),
    ],
)
def test_packages_that_do_not_suit_the_framework_are_replaced(
    name: str, codes: tuple[str, ...], arguments: str, plan
) -> None:
    found, python = plan(name)
    assert [(fix.codes, str(fix)) for fix in found.fixes] == [(codes, f"{python} -m pip install {arguments}")]


def test_nothing_outside_a_virtual_environment_is_changed(plan) -> None:
    found, _ = plan("torch_cpu_quick", virtual=False)
    assert found.fixes == ()
    assert "not in a virtual environment" in (found.refused or "")


def test_packages_that_are_not_writable_are_not_changed(plan) -> None:
    found, _ = plan("torch_cpu_quick", writable=False)
    assert found.fixes == ()
    assert "is not writable for this user" in (found.refused or "")


@pytest.mark.parametrize(
    "name", ["sound_torch_quick", "driver_updated_not_rebooted", "tensorflow_on_an_arm_host"]
)
def test_what_a_wheel_cannot_repair_gets_no_fix(name: str, plan) -> None:
    found, _ = plan(name)
    assert found == FixPlan()
