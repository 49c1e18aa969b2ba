"""Whether the driver is why no GPU was used."""

import pytest

from gpuproof.agent.verdict.driver import driver_problem
from gpuproof.explain.context import Context
from gpuproof.explain.report import explain_lines

VERSIONS = {"torch": "2.13.0", "tensorflow": "2.21.0"}


def test_a_driver_of_an_older_cuda_is_too_old_for_the_framework() -> None:
    problem = driver_problem({"torch": "13.3"}, (12, 2), "535.183.01", VERSIONS)
    assert problem is not None
    assert problem.cause == "torch-driver-too-old"
    for words in ("535.183.01", "torch 2.13.0", "CUDA 13.3", "12.2"):
        assert words in problem.reason
    for words in ("CUDA 12", "/usr/local/cuda/compat", "driver 580"):
        assert words in problem.remedy


def test_the_remedy_for_a_pair_without_forward_compatibility_names_the_newest_cuda_with_it() -> None:
    problem = driver_problem({"torch": "13.0"}, (11, 4), "470.256.02", VERSIONS)
    assert problem is not None
    assert "CUDA up to 12.8 that has NVIDIA's compatibility library" in problem.remedy


@pytest.mark.parametrize(
    ("built", "runs"),
    [
        pytest.param({"torch": "12.9"}, (12, 2), id="minor version compatibility"),
        pytest.param({"torch": "12.4"}, (13, 0), id="a newer driver"),
        pytest.param({"torch": "13.3"}, (13, 3), id="the image's library in place of the host's"),
        pytest.param({}, (12, 2), id="a CPU build"),
        pytest.param({"torch": "13.0"}, None, id="a driver that could not be read"),
        pytest.param({"torch": "13.0", "tensorflow": "12.5"}, (12, 2), id="another framework that runs"),
    ],
)
def test_what_runs_on_the_driver_or_is_unknown_is_no_problem(
    built: dict[str, str], runs: tuple[int, int] | None
) -> None:
    assert driver_problem(built, runs, "535.183.01", VERSIONS) is None


@pytest.mark.parametrize("name", ["torch", "tensorflow"])
def test_the_cause_is_that_which_explain_finds_in_the_reason(name: str) -> None:
    problem = driver_problem({name: "13.3"}, (12, 2), "535.183.01", VERSIONS)
    assert problem is not None
    codes = [found.code for found in explain_lines([problem.reason], Context(gpu_expected=True, failed=True))]
    assert codes[:1] == [problem.cause]
