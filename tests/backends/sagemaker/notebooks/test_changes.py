"""Starting, stopping, opening, listing and deleting notebook instances on the emulator."""

from __future__ import annotations

import json
import time

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.sagemaker.notebooks.errors import NotebookFailed, NotebookGone, NotebookNotFound
from gpuproof.backends.sagemaker.notebooks.listing import list_notebooks
from support.notebook_sandbox import NOTHING, TYPE, NotebookSandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow


def test_the_whole_life(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan())
    notebook = sandbox.notebook()
    assert notebook.start() == "InService"
    assert notebook.open().startswith(f"{sandbox.emulator.url}/_notebooks/")
    assert notebook.stop() == "Stopped"
    assert notebook.stop() == "Stopped"
    with pytest.raises(NotebookFailed) as error:
        notebook.open()
    assert error.value.remedy == "gpuproof notebook start nb"
    assert notebook.start() == "InService"
    assert notebook.delete() == []
    assert sandbox.exists() == NOTHING
    with pytest.raises(NotebookNotFound):
        notebook.describe()


def test_notebooks_with_the_same_settings_share_configuration_and_agent(sandbox: NotebookSandbox) -> None:
    first, second = sandbox.plan("one"), sandbox.plan("two")
    assert first.script.config_name == second.script.config_name
    sandbox.create(first, wait=False)
    sandbox.create(second)
    other = sandbox.plan("three", idle_timeout="2h")
    sandbox.create(other)
    assert len(sandbox.exists()["configs"]) == 2
    sandbox.notebook("one").delete()
    found = sandbox.exists()
    assert set(found["configs"]) == {first.script.config_name, other.script.config_name}
    sandbox.notebook("two").delete()
    found = sandbox.exists()
    # The other configuration names the same agent.
    assert found["configs"] == [other.script.config_name]
    assert first.script.agent_key in found["objects"]
    sandbox.notebook("three").delete()
    assert sandbox.exists() == NOTHING


def test_a_change_waits_for_the_states_that_sagemaker_does_not_change(sandbox: NotebookSandbox) -> None:
    sandbox.emulator.faults("slow-start,seconds=2")
    sandbox.create(sandbox.plan(), wait=False)
    assert sandbox.notebook().stop() == "Stopped"
    sandbox.notebook().start(wait=False)
    assert sandbox.notebook().delete() == []
    assert sandbox.exists() == NOTHING


def test_a_start_that_fails_is_explained_and_the_volume_stays(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan())
    sandbox.notebook().stop()
    sandbox.emulator.faults("capacity")
    with pytest.raises(NotebookFailed) as error:
        sandbox.notebook().start()
    assert "Insufficient notebook instance capacity" in error.value.message
    assert "--fallback" in (error.value.remedy or "")
    sandbox.emulator.faults()
    assert sandbox.notebook().start() == "InService"


def test_a_failed_instance_can_be_deleted(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan())
    sandbox.notebook().stop()
    sandbox.emulator.faults("capacity")
    with pytest.raises(NotebookFailed):
        sandbox.notebook().start()
    assert sandbox.notebook().delete() == []
    assert sandbox.exists() == NOTHING


def test_an_instance_that_somebody_else_deletes_while_it_is_started_is_reported(
    sandbox: NotebookSandbox,
) -> None:
    sandbox.create(sandbox.plan())
    sandbox.notebook().stop()
    sandbox.emulator.faults("slow-start,seconds=100000")

    class Deleting(RecordingProgress):
        def step(self, text: str) -> None:
            super().step(text)
            if "is Pending" in text:
                sandbox.emulator.reset()

    notebook = sandbox.notebook()
    notebook._waiter = sandbox.waiter(progress=Deleting())
    with pytest.raises(NotebookGone, match="was deleted in the meantime"):
        notebook.start()
    assert sandbox.exists() == NOTHING


def test_an_instance_that_somebody_else_deletes_while_it_is_deleted_is_no_error(
    sandbox: NotebookSandbox,
) -> None:
    sandbox.create(sandbox.plan())
    api = sandbox.emulator.client("sagemaker")

    class Racing(RecordingProgress):
        def step(self, text: str) -> None:
            if "is Stopping" in text:
                sandbox.reaches("Stopped")
                api.delete_notebook_instance(NotebookInstanceName="nb")

    notebook = sandbox.notebook()
    notebook._waiter = sandbox.waiter(progress=Racing())
    assert notebook.delete() == []
    assert sandbox.exists() == NOTHING


def test_what_cannot_be_deleted_is_named(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    sandbox.create(plan)
    sandbox.emulator.faults("access-denied,operation=DeleteNotebookInstanceLifecycleConfig")
    (problem,) = sandbox.notebook().delete()
    assert plan.script.config_name in problem
    sandbox.emulator.faults()
    assert sandbox.exists()["configs"] == [plan.script.config_name]


def test_without_the_permission_to_delete_it_stays_and_the_error_says_so(sandbox: NotebookSandbox) -> None:
    sandbox.create(sandbox.plan())
    sandbox.emulator.faults("access-denied,operation=DeleteNotebookInstance")
    with pytest.raises(AwsRefused, match="AccessDenied"):
        sandbox.notebook().delete()
    sandbox.emulator.faults()
    assert sandbox.exists()["notebooks"] == {"nb": "Stopped"}


def test_a_foreign_instance_is_not_our_own_and_keeps_its_configuration(sandbox: NotebookSandbox) -> None:
    api = sandbox.emulator.client("sagemaker")
    api.create_notebook_instance_lifecycle_config(NotebookInstanceLifecycleConfigName="theirs", OnStart=[])
    api.create_notebook_instance(
        NotebookInstanceName="nb",
        InstanceType=TYPE,
        RoleArn=sandbox.emulator.role,
        LifecycleConfigName="theirs",
    )
    sandbox.notebook().wait_in_service()
    assert not sandbox.notebook().is_own()
    assert sandbox.notebook().delete() == []
    assert sandbox.exists() == {**NOTHING, "configs": ["theirs"]}


def test_the_list_has_costs_and_idle_times(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    sandbox.create(plan)
    now = time.time()
    (one,) = list_notebooks(sandbox.aws, lambda: now + 3600)
    assert (one.name, one.status, one.instance_type, one.watched) == ("nb", "InService", TYPE, True)
    volume = 50 * 0.14 / 730
    assert (one.volume_gb, one.volume_usd_per_hour) == (50, pytest.approx(volume))
    assert one.usd_per_day == pytest.approx(24 * (1.41 + volume))
    assert one.usd_since_start == pytest.approx(1.41, rel=0.05)
    assert one.idle_seconds is None
    report = {"version": 1, "idle_seconds": 100.0, "reason": None, "at": now}
    sandbox.aws.put_object(
        plan.bucket.name, "gpuproof/notebooks/results/nb/idle.json", json.dumps(report).encode()
    )
    (one,) = list_notebooks(sandbox.aws, lambda: now + 60)
    assert one.idle_seconds == pytest.approx(160)
    # An instance that reports no more is not believed.
    (one,) = list_notebooks(sandbox.aws, lambda: now + 3600)
    assert one.idle_seconds is None
    sandbox.notebook().stop()
    (one,) = list_notebooks(sandbox.aws, time.time)
    assert (one.usd_per_day, one.usd_since_start) == (pytest.approx(24 * volume), None)
