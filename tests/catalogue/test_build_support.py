"""Which build runs on which GPU."""

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.tables import Tables

CATALOGUE = Catalogue(Tables())


@pytest.mark.parametrize("version", ["2.11", "2.12", "2.13", "2.14", "2.15"])
def test_a_v100_with_the_default_torch_wheel_since_2_11_does_not_run(version: str) -> None:
    assert CATALOGUE.runs_on(f"torch=={version}", "V100-16GB").kind == "no"


def test_a_v100_runs_with_the_cu126_wheel_of_torch_2_11() -> None:
    assert CATALOGUE.runs_on("torch==2.11.0+cu126", "V100-16GB").kind == "native"


def test_tensorflow_2_21_runs_natively_on_a_v100() -> None:
    assert CATALOGUE.runs_on("tensorflow==2.21", "V100-16GB").kind == "native"


def test_torch_2_15_runs_natively_on_a_t4() -> None:
    assert CATALOGUE.runs_on("torch==2.15.0", "T4").kind == "native"


def test_tensorflow_2_11_runs_on_an_h100_by_ptx_with_a_note_on_slow_starts() -> None:
    found = CATALOGUE.runs_on("tensorflow==2.11", "H100")
    assert found.kind == "ptx"
    assert "minutes" in found.reason


@pytest.mark.parametrize("requirement", ["tensorflow", "torch", "tensorflow==2.15", "torch==2.3"])
def test_a_k80_runs_nothing_current(requirement: str) -> None:
    assert CATALOGUE.runs_on(requirement, "K80").kind == "no"


def test_a_k80_runs_tensorflow_2_14() -> None:
    assert CATALOGUE.runs_on("tf 2.14", "K80").kind == "native"


def test_torch_2_6_has_nothing_for_blackwell_and_no_ptx() -> None:
    assert CATALOGUE.runs_on("torch==2.6", "RTX-PRO-6000").kind == "no"


def test_a_b300_runs_the_kernels_of_a_b200() -> None:
    assert CATALOGUE.runs_on("torch==2.15", "B300").kind == "native"


def test_tensorflow_on_the_arm64_host_of_a_t4g_is_a_cpu_build() -> None:
    found = CATALOGUE.runs_on("tensorflow==2.21", "T4G")
    assert found.kind == "no"
    assert "CPU build" in found.reason


def test_torch_on_the_arm64_host_of_a_t4g_lacks_its_kernels() -> None:
    assert CATALOGUE.runs_on("torch==2.15", "T4G").kind == "no"


def test_an_amd_gpu_runs_none_of_them() -> None:
    assert CATALOGUE.runs_on("torch==2.15", "V520").kind == "no"


@pytest.mark.parametrize(
    ("build", "gpu"),
    [
        ("torch==9.9", "T4"),
        ("numpy==2.0", "T4"),
        ("", "T4"),
        (None, "T4"),
        ("torch==2.15", "X900"),
        ("torch==2.15", None),
    ],
)
def test_unknown_builds_and_gpus_are_unknown_and_never_an_error(build: str | None, gpu: str | None) -> None:
    assert CATALOGUE.runs_on(build, gpu).kind == "unknown"


def test_a_build_whose_kernels_were_not_read_is_unknown() -> None:
    assert CATALOGUE.runs_on("torch==2.13+cu126", "T4").kind == "unknown"


def test_a_toolkit_that_dropped_the_gpu_serves_it_no_more() -> None:
    build = CATALOGUE.build("torch==2.10")
    gpu = CATALOGUE.gpu("V100-16GB")
    assert build is not None
    assert gpu is not None
    assert CATALOGUE.runs_on(build, gpu).kind == "native"
    assert CATALOGUE.runs_on(build._replace(cuda="13.0"), gpu).kind == "no"
