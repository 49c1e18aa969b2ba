"""A job on several hosts of SageMaker: every host's agent starts the launcher, and the results of all hosts arrive."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from support.sagemaker_sandbox import SageMakerSandbox

pytestmark = pytest.mark.slow

# The launcher only sets variables, so that no framework has to be imported.
SCRIPT = """
import json, os, pathlib
config = json.loads(os.environ["TF_CONFIG"])
name = f"{os.environ['SM_CURRENT_HOST']}.json"
pathlib.Path(os.environ["SM_MODEL_DIR"], name).write_text(json.dumps(config["task"]))
print(os.environ["SM_DISTRIBUTION_INSTANCE_GROUPS"], sorted(config["cluster"]["worker"]))
"""


def test_each_host_is_a_worker_and_has_a_verdict(sandbox: SageMakerSandbox, tmp_path: Path) -> None:
    (sandbox.folder / "src" / "train.py").write_text(SCRIPT)
    job = sandbox.training(instance_count=2, distribution="multi_worker_mirrored")
    backend = sandbox.backend()
    run = backend.submit_once(backend.plan(job)).run
    record = run.wait()
    assert record.status == "Completed", record
    log = io.BytesIO()
    run.write_log(log)
    hosts = "['algo-1:8890', 'algo-2:8890']"
    assert log.getvalue().decode().count(f'["homogeneousCluster"] {hosts}') == 2
    assert run.verdict is not None
    assert [host["host"] for host in run.verdict["hosts"]] == ["algo-1", "algo-2"]
    run.pull(tmp_path, extract=True)
    tasks = [json.loads((tmp_path / "model" / f"algo-{number}.json").read_text()) for number in (1, 2)]
    assert tasks == [{"index": 0, "type": "worker"}, {"index": 1, "type": "worker"}]
