"""Environment variables that slow jobs down or blind them, and libraries that hide others."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.doctor.checks.host import ld_library_path, variables
from gpuproof.doctor.checks.host.ld_library_path import Shadow
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.tables import FOLDER, table
from gpuproof.gpu.framework_probe import Packages
from support.gpu_states import codes, text

EVERYWHERE = variables.Reading((), gpus=2, tf32=True, cpus=8)


def judge(reading: variables.Reading = EVERYWHERE, **values: str):
    return list(variables.evaluate(replace(reading, values=tuple(values.items()))))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", "D645 warning"),
        ("NVIDIA_TF32_OVERRIDE", "0", "D646 warning"),
        ("TF_CPP_MIN_LOG_LEVEL", "3", "D647 warning"),
        ("TF_CPP_MIN_LOG_LEVEL", "2", "D647 note"),
        ("OMP_NUM_THREADS", "1", "D648 note"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "False", "D649 note"),
        ("CUDA_FORCE_PTX_JIT", "1", "D650 warning"),
        ("CUDA_DISABLE_PTX_JIT", "1", "D651 warning"),
        ("CUDA_CACHE_DISABLE", "1", "D652 note"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "D653 warning"),
        ("NCCL_P2P_DISABLE", "1", "D654 warning"),
        ("NCCL_SHM_DISABLE", "1", "D655 warning"),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0", "D656 note"),
    ],
)
def test_a_variable_that_harms_is_found_with_its_value(name: str, value: str, found: str):
    (finding,) = judge(**{name: value})
    assert codes([finding]) == [found]
    assert f"{name}={value}" in finding.evidence
    assert "{" not in text(finding)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("NVIDIA_TF32_OVERRIDE", "1"),
        ("TF_CPP_MIN_LOG_LEVEL", "1"),
        ("OMP_NUM_THREADS", "8"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
        ("NCCL_P2P_DISABLE", "0"),
        ("NCCL_P2P_DISABLE", ""),
    ],
)
def test_a_harmless_value_is_no_finding(name: str, value: str):
    assert judge(**{name: value}) == []


def test_a_variable_counts_only_where_it_matters():
    assert judge(replace(EVERYWHERE, gpus=1), NCCL_P2P_DISABLE="1") == []
    assert judge(replace(EVERYWHERE, tf32=False), NVIDIA_TF32_OVERRIDE="0") == []
    assert judge(replace(EVERYWHERE, cpus=2), OMP_NUM_THREADS="1") == []


def test_without_such_variables_there_is_nothing_to_look_at():
    assert variables.read(Machine(environment={"PATH": "/bin"})) is None


def test_every_row_has_a_code_of_its_variable_and_a_source():
    with (FOLDER / "environment" / "sources.csv").open() as file:
        sources = {row["source"] for row in csv.DictReader(file)}
    names: dict[str, set[str]] = {}
    for row in table("environment/variables"):
        names.setdefault(row["code"], set()).add(row["name"])
        assert row["source"] in sources
        re.compile(row["pattern"])
    assert all(len(one) == 1 for one in names.values())


def machine_with(tmp_path: Path, value: str, packages: dict[str, str] | None = None) -> Machine:
    site = tmp_path / "venv/lib/python3.11/site-packages"
    (site / "nvidia/cudnn/lib").mkdir(parents=True)
    (site / "nvidia/cudnn/lib/libcudnn.so.9").write_text("")
    old = tmp_path / "cuda/lib64"
    (old / "stubs").mkdir(parents=True)
    (old / "stubs/libcuda.so.1").write_text("")
    (old / "libcudnn.so.9.1.0").write_text("")
    (old / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    machine = Machine(environment={"LD_LIBRARY_PATH": value.replace("CUDA", str(old))})
    installed = packages or {"nvidia-cudnn-cu12": "9.10.2.21"}
    vars(machine)["packages"] = Packages(folders=(str(site),), versions=installed)
    return machine


def test_an_older_library_before_the_wheel_s_own_is_a_warning(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "/nowhere:CUDA"))
    assert reading is not None
    (finding,) = ld_library_path.evaluate(reading)
    assert finding.code == "D660"
    assert "libcudnn.so.9 9.1.0 instead of 9.10.2.21" in finding.message


def test_the_same_version_twice_is_no_finding(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "CUDA", {"nvidia-cudnn-cu12": "9.1.0.70"}))
    assert reading is not None
    assert codes(ld_library_path.evaluate(reading)) == []


def test_versions_that_are_not_known_are_no_finding():
    unknown = Shadow("libcudnn.so.9", "/opt/libcudnn.so.9", None, "/site/libcudnn.so.9", "9.10.2.21")
    assert codes(ld_library_path.evaluate(ld_library_path.Reading((unknown,)))) == []


def test_the_stub_of_the_driver_on_the_path_is_an_error(tmp_path: Path):
    reading = ld_library_path.read(machine_with(tmp_path, "CUDA/stubs"))
    assert reading is not None
    assert codes(ld_library_path.evaluate(reading)) == ["D661 error"]


def test_without_the_variable_no_library_is_looked_for():
    assert ld_library_path.read(Machine(environment={})) is None
