"""The lifecycle script on an emulated machine without Jupyter: the real script and agent, and the stub of NVML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.sagemaker.notebooks.lifecycle_script import LONGEST, LifecycleScript
from gpuproof.catalogue import Catalogue
from support import nvml_stub
from support.cli_sandbox import until
from support.notebook_sandbox import NOTHING, NotebookSandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> nvml_stub.Scenario:
    """One idle A10G."""
    folder = tmp_path_factory.mktemp("gpus")
    scenario = nvml_stub.Scenario(folder / "gpus.txt")
    scenario.gpu(0, "NVIDIA A10G", memory_mib=23028)
    scenario.at(0, gpu=0, util=0)
    return scenario.now(1)


@pytest.fixture(scope="module")
def emulator_options(
    tmp_path_factory: pytest.TempPathFactory, gpus: nvml_stub.Scenario, python_without_jupyter: str
) -> dict[str, Any]:
    """With the stub of NVML."""
    library = nvml_stub.build_library(tmp_path_factory.getbasetemp())
    return {"environment": gpus.environment(library), "python": python_without_jupyter}


@pytest.fixture(autouse=True)
def idle(gpus: nvml_stub.Scenario) -> Iterator[None]:
    """The GPU is idle again after each test."""
    yield
    gpus.now(1)


def test_a_gpu_that_works_keeps_it_running_until_it_is_idle(
    sandbox: NotebookSandbox, gpus: nvml_stub.Scenario
) -> None:
    gpus.at(10, gpu=0, util=90, memory_mib=8000)
    gpus.now(11)
    sandbox.create(sandbox.plan(idle=2))
    until(lambda: "stops after" in sandbox.log(), "the start of the watcher")
    sandbox.stays_in_service(8)
    gpus.now(1)
    sandbox.reaches("Stopped")


def test_the_gpu_check_at_the_first_start_is_shown(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan())
    check = until(sandbox.notebook().gpu_check, "the GPU check")
    assert check.splitlines()[0].startswith("GPU check: ")
    assert "1 x NVIDIA A10G" in check
    volume = next((sandbox.emulator.state / "notebooks").rglob("volume"))
    assert (volume / "gpuproof-gpu-check.txt").read_text().strip() == check
    assert "1 x NVIDIA A10G" in until(sandbox.log, "the log")


def test_a_gpu_of_another_model_is_a_problem(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan(fallbacks=["ml.g6.xlarge"])
    sandbox.emulator.faults("capacity,at=creation,instance=ml.g5.*")
    sandbox.create(plan)
    check = until(sandbox.notebook().gpu_check, "the GPU check")
    assert "The instance type has 1 L4, but the driver reports NVIDIA A10G." in " ".join(
        check.split()
    ).replace("has L4", "has 1 L4")


def test_a_role_that_may_not_stop_it_is_named_in_the_log(sandbox: NotebookSandbox) -> None:
    sandbox.emulator.faults("access-denied,operation=StopNotebookInstance")
    sandbox.create(sandbox.plan(idle=2))
    log = until(lambda: "could not be stopped" in (text := sandbox.log()) and text, "the log")
    assert "sagemaker:StopNotebookInstance" in log
    assert "gpuproof iam policy --role" in log
    assert sandbox.exists()["notebooks"] == {"nb": "InService"}
    sandbox.emulator.faults()
    sandbox.notebook().delete()
    assert sandbox.exists() == NOTHING


@pytest.mark.parametrize(
    "fault", ["access-denied,service=s3,operation=HeadObject", "drop,service=s3,operation=HeadObject"]
)
def test_an_agent_that_cannot_be_downloaded_does_not_keep_it_from_starting(
    sandbox: NotebookSandbox, fault: str
) -> None:
    plan = sandbox.plan()
    # The client looks for the agent once before it uploads it.
    sandbox.emulator.faults(f"{fault},skip=1,name=*/gpuproof/notebooks/agents/*")
    assert sandbox.create(plan).status == "InService"
    log = until(lambda: "could not be downloaded" in (text := sandbox.log()) and text, "the log")
    assert "s3:GetObject" in log
    assert "VPC endpoint" in log


def test_an_agent_that_was_changed_is_not_run(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan(idle=2)
    sandbox.emulator.client("s3").create_bucket(Bucket=plan.bucket.name)
    # As large as the agent, so that it is not uploaded again.
    other = b"#" * plan.agent.size
    sandbox.emulator.client("s3").put_object(Bucket=plan.bucket.name, Key=plan.script.agent_key, Body=other)
    sandbox.create(plan)
    log = until(lambda: "could not be downloaded" in (text := sandbox.log()) and text, "the log")
    assert "does not have the expected SHA-256" in log
    assert not list(Path(sandbox.emulator.state / "notebooks").rglob("agent.pyz"))


def test_never_means_never(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan(idle_timeout=None))
    until(sandbox.notebook().gpu_check, "the GPU check")
    assert "stops after" not in sandbox.log()


def test_the_script_is_within_the_limit_with_all_types() -> None:
    instances = Catalogue.load().tables.gpu_instances.values()
    expected = {f"ml.{instance.name}": f"{instance.gpu_count} {instance.gpu_model}" for instance in instances}
    script = LifecycleScript("b" * 63, "a" * 64, 86_400, expected)
    assert len(script.encoded()) <= LONGEST
    assert len(script.config_name) <= 63


def test_the_name_of_the_configuration_is_the_hash_of_its_content() -> None:
    one = LifecycleScript("bucket", "a" * 64, 3600, {"ml.g5.xlarge": "1 A10G"})
    assert (
        one.config_name == LifecycleScript("bucket", "a" * 64, 3600, {"ml.g5.xlarge": "1 A10G"}).config_name
    )
    assert (
        one.config_name != LifecycleScript("bucket", "a" * 64, 7200, {"ml.g5.xlarge": "1 A10G"}).config_name
    )
