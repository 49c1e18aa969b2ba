"""The GPUs and the driver of an instance against what the job was planned for; nvidia-smi is a shell script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.setup.driver import MODELS, DriverUnusable, check_gpus, wait_for_driver
from gpuproof.catalogue import Catalogue

Parameters = Callable[..., HostParameters]
Install = Callable[[str], None]


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a shell script into `PATH` as `nvidia-smi`."""

    def install(script: str) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    return install


def answers(*gpus: str) -> str:
    """A script that answers the query with these lines, and `-L` with their names."""
    lines = "\n".join(gpus)
    names = "\n".join(f"GPU {index}: {text.partition(',')[0]}" for index, text in enumerate(gpus))
    return (
        f"case \"$1\" in --query-gpu=*) cat <<'END'\n{lines}\nEND\n;; -L) cat <<'END'\n{names}\nEND\n;; esac"
    )


def test_the_right_gpus_and_a_newer_driver_pass(nvidia_smi: Install, parameters: Parameters) -> None:
    nvidia_smi(answers(*["NVIDIA A10G, 570.133.20"] * 4))
    wait_for_driver(4, 1.0, lambda _: None)
    check_gpus(parameters(gpus=4, gpu_name="A10G", min_driver="525.60.13", min_driver_for="torch 2.9"))


def test_another_model_is_named_with_its_index(nvidia_smi: Install, parameters: Parameters) -> None:
    nvidia_smi(answers("NVIDIA L4, 570.133.20", "Tesla T4, 570.133.20"))
    with pytest.raises(DriverUnusable, match=r"g6\.12xlarge should have L4, but GPU 1 is Tesla T4") as caught:
        check_gpus(parameters(gpus=2, gpu_name="L4", instance_type="g6.12xlarge"))
    assert "--instance-type" in str(caught.value)


def test_an_old_driver_is_named_with_what_needs_a_newer_one(
    nvidia_smi: Install, parameters: Parameters
) -> None:
    nvidia_smi(answers("NVIDIA A10G, 470.256.02"))
    needs = "torch 2.9 (CUDA 12.6)"
    with pytest.raises(DriverUnusable) as caught:
        check_gpus(parameters(gpus=1, gpu_name="A10G", min_driver="525.60.13", min_driver_for=needs))
    text = str(caught.value)
    assert f"{needs} needs NVIDIA driver 525.60.13 or later, but the AMI has 470.256.02" in text
    assert "ec2: ami" in text


@pytest.mark.parametrize(
    "script",
    [
        "exit 9",
        "echo 'Field \"name\" is not a valid field to query.'; exit 2",
        "echo 'NVIDIA Graphics Device, 999.0'",
        "echo 'NVIDIA A10G, [N/A]'",
        "echo 'GPU 0: NVIDIA T4 (UUID: GPU-1)'",
    ],
)
def test_what_nvidia_smi_does_not_say_is_no_error(
    script: str, nvidia_smi: Install, parameters: Parameters
) -> None:
    nvidia_smi(script)
    check_gpus(parameters(gpus=1, gpu_name="A10G", min_driver="525.60.13", min_driver_for="torch 2.9"))


def test_without_facts_nvidia_smi_is_not_asked(nvidia_smi: Install, parameters: Parameters) -> None:
    nvidia_smi("echo 'Tesla T4, 1.0'")
    check_gpus(parameters(gpus=1))


def test_all_models_of_the_catalogue_and_the_names_that_drivers_report_are_known(
    nvidia_smi: Install, parameters: Parameters
) -> None:
    for gpu in Catalogue.load().tables.gpus.values():
        if gpu.vendor != "NVIDIA":
            continue
        for name in (gpu.name, *gpu.aliases):
            nvidia_smi(answers(f"{name}, 570.0"))
            check_gpus(parameters(gpus=1, gpu_name=gpu.name))
            other = "T4" if gpu.name != "T4" else "L4"
            with pytest.raises(DriverUnusable):
                check_gpus(parameters(gpus=1, gpu_name=other))
    assert len(set(MODELS)) == len(MODELS)
