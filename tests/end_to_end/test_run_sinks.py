"""Series and summary of a run on their way out: the whole agent, with real sinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.cli_sandbox import CliSandbox
from support.nvml_stub import STAYS, Scenario, build_library
from support.sdk_environments import interpreter_of
from support.sink_runs import run_python

pytestmark = pytest.mark.journey

WRITES_EVENTS = """
from pathlib import Path
logs = Path("/opt/ml/output/data/logs")
logs.mkdir(parents=True)
(logs / "events.out.tfevents.1.host").write_bytes(b"")
"""


def test_the_job_names_a_sink_which_has_the_verdict_when_the_run_ends(
    sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    sandbox.environment.update(scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    scenario.gpu(0).when_registered(tmp_path / "pid", util=87, memory_mib=9000).write()
    seen = str(sandbox.project.parent / "looks")
    sandbox.write("train.py", STAYS.format(files=[str(tmp_path / "pid")], looks=seen, count=4))
    result = sandbox.run_json("train.py", "--name", "cats", "--sink", f"prometheus={tmp_path}")
    assert result["exit_code"] == 0
    path = tmp_path / "gpuproof-cats.prom"
    families = {family.name: family.samples for family in text_string_to_metric_families(path.read_text())}
    assert families["gpuproof_verdict"][0].labels["outcome"] == "used"
    assert families["gpuproof_gpu_utilization_ratio"][0].value > 0
    assert sandbox.state(sandbox.newest())["sinks"] == {"prometheus": str(path)}


def test_a_script_that_writes_event_files_finds_those_of_the_run_next_to_them(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", WRITES_EVENTS)
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 0
    folder = sandbox.newest()
    (events,) = (folder / "ml" / "output" / "data" / "logs" / "gpuproof").iterdir()
    assert f"sink       tensorboard: {events.parent}" in done.stderr
    assert events.stat().st_size > 0
    assert set(sandbox.state(folder)["sinks"]) == {"tensorboard"}


def test_a_sink_that_fails_is_a_note_and_leaves_the_exit_code(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('done')\n")
    done = sandbox.gpuproof("run", "train.py", "--sink", "opentelemetry=http://127.0.0.1:9")
    assert done.returncode == 0
    assert any(
        note.startswith("sink opentelemetry: the collector could not be reached")
        for note in sandbox.state(sandbox.newest())["notes"]
    )


def test_the_run_of_mlflow_that_the_script_has_gets_the_verdict_without_any_setting(
    sandbox: CliSandbox,
) -> None:
    sandbox.write("train.py", "import mlflow\nmlflow.log_metric('loss', 0.5)\n")
    python = interpreter_of("trackers")
    done = sandbox.gpuproof("run", "train.py", "--sink", "mlflow", "--python", python)
    assert done.returncode == 0
    state = sandbox.state(sandbox.newest())
    assert [note for note in state["notes"] if note.startswith("sink")] == []
    read = (
        "import json; from mlflow.tracking import MlflowClient\n"
        "print(json.dumps([[run.info.run_id, run.data.metrics] for run in MlflowClient().search_runs(['0'])]))"
    )
    code = sandbox.newest() / "ml" / "code"
    ((identifier, metrics),) = json.loads(run_python(python, read, code, {}))
    assert state["sinks"] == {"mlflow": f"run {identifier}"}
    assert (metrics["loss"], metrics["gpuproof/summary/exit_code"]) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("sink", "why"),
    [
        ("wandbb", "there is no sink 'wandbb'; did you mean 'wandb'?"),
        ("prometheus", "prometheus needs a target"),
        ("wandb=x", "wandb has no target"),
        ("opentelemetry=http://user:secret@host", "contains a user"),
    ],
)
def test_a_sink_that_cannot_be_meant_is_rejected(sandbox: CliSandbox, sink: str, why: str) -> None:
    sandbox.write("train.py", "")
    done = sandbox.gpuproof("run", "train.py", "--sink", sink)
    assert done.returncode == 2
    assert why in done.stderr
