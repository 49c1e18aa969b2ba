"""Sinks that need a package, with the real packages and local stores: into the script's own run, or into one of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.sinks.metrics import summary_of
from gpuproof.agent.sinks.wandb import QUIET, SHARED
from support.sdk_environments import interpreter_of
from support.sink_runs import LIMIT_S, VERDICT, SinkRun, run_python, sample

pytestmark = pytest.mark.slow

SUMMARY = summary_of(VERDICT, "Completed", 0)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of MLflow, whose creation takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    code = "import mlflow; mlflow.tracking.MlflowClient().search_experiments()"
    variables = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    run_python(interpreter_of("trackers"), code, folder, variables)
    return folder / "mlflow.db"


@pytest.fixture
def run(tmp_path: Path, agent_file: Path) -> SinkRun:
    # No home: nothing of this machine's configuration is used.
    home = {"HOME": str(tmp_path), "WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio")}
    home["MLFLOW_TRACKING_URI"] = f"sqlite:///{tmp_path / 'mlflow.db'}"
    return SinkRun(tmp_path / "run", agent_file, str(interpreter_of("trackers")), home)


@pytest.fixture
def store(run: SinkRun, tmp_path: Path, database: Path) -> SinkRun:
    shutil.copyfile(database, tmp_path / "mlflow.db")
    return run


@contextmanager
def script(run: SinkRun, code: str) -> Iterator[None]:
    """A script that has logged, and waits until the block has ended."""
    program = f"{code}\nprint('logged', flush=True)\ninput()\n"
    process = subprocess.Popen(
        [run.python, "-c", program],
        cwd=run.paths.ml / "code",
        env=run.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout)
    assert any(line == "logged\n" for line in lines)
    yield
    process.communicate("\n")
    assert process.returncode == 0


def finished(run: SinkRun, sink: str, code: str = "") -> str:
    """Where a sink's values are, of a run whose script executes this code."""
    export = run.export(sink)
    if code:
        with script(run, code):
            return _finish(export)
    return _finish(export)


def _finish(export: Any) -> str:
    export.on_sample(sample(10.0, utilization=80))
    export.on_sample(sample(20.0, utilization=40))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert notes == []
    return next(iter(locations.values()))


READ_MLFLOW = """
import json
from mlflow.tracking import MlflowClient
client, found = MlflowClient(), []
for run in client.search_runs(["0"]):
    history = client.get_metric_history(run.info.run_id, "gpuproof/gpu0/utilization")
    found.append({"id": run.info.run_id, "status": run.info.status, "tags": run.data.tags,
                  "metrics": run.data.metrics, "history": [[m.step, m.value] for m in history]})
print(json.dumps(found))
"""


def mlflow_runs(run: SinkRun) -> list[dict[str, Any]]:
    return json.loads(run_python(Path(run.python), READ_MLFLOW, run.folder, run.variables))


def test_mlflow_values_are_in_the_run_that_the_script_has(store: SinkRun) -> None:
    code = "import mlflow; mlflow.start_run(); mlflow.log_metric('loss', 1.0)"
    location = finished(store, "mlflow", code)
    (found,) = mlflow_runs(store)
    assert location == f"run {found['id']}"
    assert found["history"] == [[10, 0.8], [20, 0.4]]
    assert found["metrics"]["loss"] == 1.0
    assert found["metrics"]["gpuproof/summary/gpu0/mean_utilization"] == 87.5
    assert found["tags"]["gpuproof/summary/outcome"] == "used"
    assert found["status"] == "FINISHED"


def test_mlflow_has_a_run_of_its_own_without_one_of_the_script(store: SinkRun) -> None:
    finished(store, "mlflow")
    (found,) = mlflow_runs(store)
    assert found["tags"]["mlflow.runName"] == "train-cats-1"
    assert found["history"] == [[10, 0.8], [20, 0.4]]
    assert found["status"] == "FINISHED"


def test_a_run_of_mlflow_from_before_is_not_the_scripts(store: SinkRun) -> None:
    (store.paths.ml / "code").mkdir(parents=True)
    before = "import mlflow, time; client = mlflow.tracking.MlflowClient(); client.create_run('0', start_time=1000)"
    run_python(Path(store.python), before, store.folder, store.variables)
    finished(store, "mlflow")
    assert sorted(len(found["history"]) for found in mlflow_runs(store)) == [0, 2]


def test_mlflow_run_id_names_the_scripts_run(store: SinkRun) -> None:
    (store.paths.ml / "code").mkdir(parents=True)
    create = "import mlflow; print(mlflow.tracking.MlflowClient().create_run('0').info.run_id)"
    identifier = run_python(Path(store.python), create, store.folder, store.variables).split()[-1]
    store.variables["MLFLOW_RUN_ID"] = identifier
    assert finished(store, "mlflow") == f"run {identifier}"
    (found,) = mlflow_runs(store)
    assert found["status"] == "RUNNING"


READ_TRACKIO = """
import json, sqlite3, sys, pathlib, os
found = []
for path in pathlib.Path(os.environ["TRACKIO_DIR"]).glob("*.db"):
    for name, step, metrics in sqlite3.connect(path).execute("SELECT run_name, step, metrics FROM metrics"):
        found.append([path.stem, name, step, json.loads(metrics)])
print(json.dumps(found))
"""


def trackio_values(run: SinkRun) -> list[list[Any]]:
    return json.loads(run_python(Path(sys.executable), READ_TRACKIO, run.folder, run.variables))


def test_trackio_values_are_in_the_run_that_the_script_has(run: SinkRun) -> None:
    code = "import trackio; trackio.init(project='cats', name='mine'); trackio.log({'loss': 1.0}); trackio.finish()"
    assert finished(run, "trackio", code) == "project cats, run mine"
    found = trackio_values(run)
    assert {(project, name) for project, name, _, _ in found} == {("cats", "mine")}
    series = [
        (step, metrics["gpuproof/gpu0/utilization"])
        for *_, step, metrics in found
        if "gpuproof/gpu0/utilization" in metrics
    ]
    assert series == [(10, 0.8), (20, 0.4)]
    assert found[-1][3]["gpuproof/summary/outcome"] == "used"


def test_trackio_has_a_run_of_its_own_without_one_of_the_script(run: SinkRun) -> None:
    assert finished(run, "trackio") == "project train-cats, run train-cats-1-algo-1"
    assert len(trackio_values(run)) == 3


def test_a_folder_that_the_script_sees_below_opt_ml_is_found_outside(run: SinkRun) -> None:
    run.variables["TRACKIO_DIR"] = "/opt/ml/output/data/trackio"
    finished(run, "trackio")
    run.variables["TRACKIO_DIR"] = str(run.paths.ml / "output" / "data" / "trackio")
    assert len(trackio_values(run)) == 3


READ_WANDB = """
import glob, json, struct, sys
from wandb.proto import wandb_internal_pb2 as messages
found = []
for path in sorted(glob.glob(sys.argv[1] + "/wandb/*run-*/run-*.wandb")):
    content = open(path, "rb").read()
    at, run, history, summary, data = 7, {}, [], {}, b""
    while at + 7 <= len(content):
        length, kind = struct.unpack_from("<HB", content, at + 4)
        data += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind not in (1, 4):
            continue
        record = messages.Record()
        record.ParseFromString(data)
        data = b""
        name = record.WhichOneof("record_type")
        if name == "run":
            run = {"id": record.run.run_id, "project": record.run.project, "group": record.run.run_group}
        elif name == "history":
            history.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item})
        elif name == "summary":
            summary.update({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.summary.update})
    found.append({**run, "history": history, "summary": summary})
print(json.dumps(found))
"""


def wandb_runs(run: SinkRun, folder: Path) -> list[dict[str, Any]]:
    code = f"import sys; sys.argv.append({str(folder)!r})\n{READ_WANDB}"
    return json.loads(run_python(Path(run.python), code, run.folder, run.variables))


def test_wandb_offline_has_a_run_in_the_group_of_the_scripts(run: SinkRun) -> None:
    run.variables["WANDB_PROJECT"] = "cats"
    code = "import wandb; run = wandb.init(id='abc'); run.log({'loss': 1.0})"
    location = finished(run, "wandb", code)
    (found,) = wandb_runs(run, run.paths.ml / "output" / "data" / "gpuproof")
    assert Path(location).is_relative_to(run.paths.ml / "output" / "data" / "gpuproof" / "wandb")
    assert (found["id"], found["project"], found["group"]) == ("train-cats-1-algo-1-gpuproof", "cats", "abc")
    series = [(line["gpuproof/seconds"], line["gpuproof/gpu0/utilization"]) for line in found["history"]]
    assert series == [(10.0, 0.8), (20.0, 0.4)]
    assert found["summary"]["gpuproof/summary/outcome"] == "used"


def test_wandb_leaves_a_run_that_the_variables_name_to_the_script(run: SinkRun) -> None:
    run.variables |= {"WANDB_RUN_ID": "abc", "WANDB_RESUME": "must"}
    finished(run, "wandb")
    (found,) = wandb_runs(run, run.paths.ml / "output" / "data" / "gpuproof")
    assert (found["id"], found["group"]) == ("train-cats-1-algo-1-gpuproof", "abc")


def test_wandb_knows_the_settings_of_its_shared_mode(run: SinkRun) -> None:
    code = f"import wandb; s = wandb.Settings(**{ {**QUIET, **SHARED}!r}); print(s.mode, s.x_primary, s.x_update_finish_state)"
    run.folder.mkdir()
    assert run_python(Path(run.python), code, run.folder, run.variables) == "shared False False\n"


def test_wandb_without_a_key_is_a_note(run: SinkRun) -> None:
    run.variables["WANDB_MODE"] = "online"
    export = run.export("wandb")
    export.on_sample(sample(10.0))
    locations, (note,) = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert locations == {}
    assert note.startswith("sink wandb: ")
    assert "key" in note


@pytest.mark.parametrize("sink", ["wandb", "mlflow", "trackio"])
def test_a_package_that_is_not_installed_is_a_note(run: SinkRun, sink: str) -> None:
    run.python = sys.executable
    export = run.export(sink)
    export.on_sample(sample(10.0))
    locations, (note,) = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert locations == {}
    assert note.startswith(f"sink {sink}: the script's Python has no package {sink}")
