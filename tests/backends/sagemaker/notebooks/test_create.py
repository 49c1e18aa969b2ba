"""Creating notebook instances on the emulator, over HTTP: each test asserts what exists afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.sagemaker.notebooks.errors import NotebookFailed, NotebookGone, NotebookTimeout
from gpuproof.errors import InvalidJob, UsageError
from support.notebook_sandbox import NOTHING, TYPE, NotebookSandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow


def test_a_notebook_instance_is_secure_by_default(sandbox: NotebookSandbox) -> None:
    created = sandbox.create(sandbox.plan(tags={"team": "vision"}))
    assert (created.status, created.candidate.name) == ("InService", TYPE)
    found = sandbox.notebook().describe()
    assert found["RootAccess"] == "Disabled"
    assert found["InstanceMetadataServiceConfiguration"] == {"MinimumInstanceMetadataServiceVersion": "2"}
    assert found["VolumeSizeInGB"] == 50
    tags = sandbox.notebook().tags()
    assert (tags["team"], tags["gpuproof:notebook"], tags["gpuproof:kind"]) == ("vision", "nb", "notebook")
    sandbox.notebook().delete()
    assert sandbox.exists() == NOTHING


def test_a_dry_run_shows_all_calls_and_makes_none(sandbox: NotebookSandbox) -> None:
    calls = [call.operation for call in sandbox.plan().calls]
    assert calls[-3:] == [
        "put_object",
        "create_notebook_instance_lifecycle_config",
        "create_notebook_instance",
    ]
    assert sandbox.exists() == NOTHING


def test_a_type_that_notebooks_do_not_have_is_rejected_with_the_nearest(sandbox: NotebookSandbox) -> None:
    with pytest.raises(InvalidJob) as error:
        sandbox.plan(fallbacks=["ml.p4de.24xlarge", "ml.p5e.48xlarge"])
    assert "ml.p5e.48xlarge" in error.value.message
    assert "--instance-type ml." in (error.value.remedy or "")


def test_a_name_that_exists_is_rejected_before_anything_is_created(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan(), wait=False)
    before = sandbox.exists()
    with pytest.raises(UsageError, match="exists already"):
        sandbox.plan()
    assert sandbox.exists()["configs"] == before["configs"]


@pytest.mark.parametrize("fault", ["quota", "capacity,at=creation", "capacity"])
def test_a_type_that_is_unavailable_is_followed_by_its_fallback(sandbox: NotebookSandbox, fault: str) -> None:
    sandbox.emulator.faults(f"{fault},instance={TYPE}")
    created = sandbox.create(sandbox.plan(fallbacks=["ml.g6.xlarge"]))
    assert created.candidate.name == "ml.g6.xlarge"
    assert [attempt.name for attempt in created.tried] == [TYPE]
    assert any("trying ml.g6.xlarge" in note for note in sandbox.progress.notes)
    assert sandbox.exists()["notebooks"] == {"nb": "InService"}


@pytest.mark.parametrize("fault", ["quota", "capacity"])
def test_without_a_type_that_is_available_nothing_exists(sandbox: NotebookSandbox, fault: str) -> None:
    sandbox.emulator.faults(fault)
    with pytest.raises(NoCapacity) as error:
        sandbox.create(sandbox.plan(fallbacks=["ml.g6.xlarge"]))
    assert [attempt.name for attempt in error.value.tried] == [TYPE, "ml.g6.xlarge"]
    if fault == "quota":
        assert "ml.g5.xlarge for notebook instance usage" in (error.value.remedy or "")
    assert sandbox.exists() == NOTHING


def test_an_instance_that_stays_pending_is_named_with_what_it_costs(sandbox: NotebookSandbox) -> None:
    sandbox.emulator.faults("slow-start,seconds=100000")
    plan = sandbox.plan()
    from gpuproof.backends.sagemaker.notebooks.create import create_notebook

    with pytest.raises(NotebookTimeout) as error:
        create_notebook(sandbox.aws, plan, sandbox.progress, sandbox.waiter(timeout=1.0))
    assert "still Pending" in error.value.message
    assert f"{TYPE} (1 x A10G) at $1.41 an hour" in error.value.message
    assert plan.script.config_name in error.value.message
    assert "gpuproof notebook delete nb" in (error.value.remedy or "")
    found = sandbox.exists()
    assert found["notebooks"] == {"nb": "Pending"}
    assert found["configs"] == [plan.script.config_name]


def test_a_script_that_fails_is_explained_with_its_log_and_nothing_exists(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    _create_config(sandbox, plan.script.config_name, "#!/bin/bash\necho no such package\nexit 1\n")
    with pytest.raises(NotebookFailed) as error:
        sandbox.create(plan)
    assert "took longer than 5 minutes" in error.value.message
    assert "LifecycleConfigOnStart: no such package" in error.value.message
    assert "ended with an error" in (error.value.remedy or "")
    assert sandbox.exists() == NOTHING


def test_a_missing_permission_leaves_nothing(sandbox: NotebookSandbox) -> None:
    for operation in ("CreateNotebookInstanceLifecycleConfig", "CreateNotebookInstance"):
        sandbox.emulator.faults(f"access-denied,operation={operation}")
        with pytest.raises(AwsRefused) as error:
            sandbox.create(sandbox.plan())
        assert error.value.is_permission
        sandbox.emulator.faults()
        assert sandbox.exists() == NOTHING


def test_a_creation_that_fails_early_leaves_the_agent_of_others(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan("other"))
    before = sandbox.exists()
    plan = sandbox.plan(idle_timeout="2h")
    # Looking for the agent fails, or creating the configuration.
    for fault in ("service=s3,operation=HeadObject", "operation=CreateNotebookInstanceLifecycleConfig"):
        sandbox.emulator.faults(f"access-denied,{fault}")
        with pytest.raises(AwsRefused):
            sandbox.create(plan)
        sandbox.emulator.faults()
        found = sandbox.exists()
        assert plan.script.agent_key in found["objects"]
        assert (found["notebooks"], found["configs"]) == (before["notebooks"], before["configs"])


@pytest.mark.parametrize("fault", ["drop,when=after", "drop,when=before", "internal-error"])
def test_a_lost_connection_creates_no_second_instance(sandbox: NotebookSandbox, fault: str) -> None:
    sandbox.emulator.faults(f"{fault},operation=CreateNotebookInstance,count=1")
    created = sandbox.create(sandbox.plan())
    assert created.status == "InService"
    assert sandbox.exists()["notebooks"] == {"nb": "InService"}


def test_somebody_elses_instance_of_the_same_name_is_left_alone(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    sandbox.create(sandbox.plan(), wait=False)
    with pytest.raises(AwsRefused, match="duplicate"):
        sandbox.create(plan)
    found = sandbox.exists()
    assert list(found["notebooks"]) == ["nb"]
    assert found["configs"] == [plan.script.config_name]


def test_an_instance_that_somebody_else_deletes_meanwhile_is_reported(sandbox: NotebookSandbox) -> None:
    sandbox.emulator.faults("slow-start,seconds=100000")
    waited = 0

    class Deleting(RecordingProgress):
        def step(self, text: str) -> None:
            nonlocal waited
            waited += "is Pending" in text
            if waited == 1 and "is Pending" in text:
                sandbox.emulator.reset()  # deletes everything, whatever its state

    with pytest.raises(NotebookGone, match="no longer exists"):
        sandbox.create(sandbox.plan(), Deleting())
    assert sandbox.exists() == NOTHING


def test_a_second_ctrl_c_leaves_the_instance_and_names_it(sandbox: NotebookSandbox) -> None:
    sandbox.emulator.faults("slow-start,seconds=100000")

    class Impatient(RecordingProgress):
        def step(self, text: str) -> None:
            super().step(text)
            if "is Pending" in text:
                raise KeyboardInterrupt

    progress = Impatient()
    with pytest.raises(KeyboardInterrupt):
        sandbox.create(sandbox.plan(), progress)
    assert sandbox.exists()["notebooks"] == {"nb": "Pending"}
    (left,) = [note for note in progress.notes if note.startswith("not deleted")]
    assert f"nb, {TYPE}" in left
    assert "gpuproof notebook delete nb" in left


def test_a_rollback_that_fails_names_what_stays(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    _create_config(sandbox, plan.script.config_name, "#!/bin/bash\nexit 1\n")
    sandbox.emulator.faults("access-denied,operation=DeleteNotebookInstance")
    with pytest.raises(NotebookFailed):
        sandbox.create(plan)
    (left,) = [note for note in sandbox.progress.notes if note.startswith("not deleted")]
    assert "AccessDeniedException" in left
    assert "gpuproof notebook delete nb" in left
    sandbox.emulator.faults()
    assert sandbox.exists()["notebooks"] == {"nb": "Failed"}


def _create_config(sandbox: NotebookSandbox, name: str, script: str) -> Any:
    import base64

    content = base64.b64encode(script.encode()).decode()
    sandbox.emulator.client("sagemaker").create_notebook_instance_lifecycle_config(
        NotebookInstanceLifecycleConfigName=name, OnStart=[{"Content": content}]
    )
