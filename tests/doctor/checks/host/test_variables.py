"""Environment variables that slow jobs down or hide errors."""

import csv
import re
from dataclasses import replace

import pytest

from gpuproof.doctor.checks.host import variables
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.tables import FOLDER, table
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
def test_a_harmless_value_has_no_finding(name: str, value: str):
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
    assert all(len(name) == 1 for name in names.values())
