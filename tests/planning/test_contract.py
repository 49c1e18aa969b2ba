"""A script that is planned finds SageMaker's contract, as in a run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gpuproof.agent.isolation.opt_ml_mounts import NamespaceUnavailable
from gpuproof.planning.contract import NO_CONTRACT, Contract, create_contract
from gpuproof.planning.tracing import TraceRequest, trace_script
from gpuproof.trace.private_contract import _try_in_child


def test_the_variables_and_files_are_those_of_a_training_job(tmp_path: Path) -> None:
    contract = Contract({"training": str(tmp_path)}, {"lr": 0.1, "name": "x"})
    ml = tmp_path / "ml"
    ml.mkdir()
    variables = create_contract(contract, Path("train.py"), 4, ml)
    assert (variables["SM_CHANNEL_TRAINING"], variables["SM_NUM_GPUS"]) == (str(tmp_path), "4")
    assert (variables["SM_HP_LR"], variables["SM_CURRENT_HOST"]) == ("0.1", "algo-1")
    assert variables["SM_MODEL_DIR"] == str(ml / "model")
    assert json.loads(variables["SM_HPS"]) == {"lr": 0.1, "name": "x"}
    assert json.loads((ml / "input/config/hyperparameters.json").read_text()) == {"lr": "0.1", "name": "x"}
    assert all((ml / name).is_dir() for name in ("model", "output/data", "checkpoints"))


def test_without_a_job_there_is_one_host_and_no_channel(tmp_path: Path) -> None:
    variables = create_contract(NO_CONTRACT, Path("train.py"), 1, tmp_path)
    assert (variables["SM_HOSTS"], variables["SM_CHANNELS"], variables["SM_HPS"]) == (
        '["algo-1"]',
        "[]",
        "{}",
    )


SCRIPT = """
import os
from pathlib import Path
import torch

assert Path("/opt/ml/input/data/training/sample.txt").read_text() == "sample"
assert Path("/opt/ml/input/config/hyperparameters.json").exists()
Path("/opt/ml/model/notes.txt").write_text("kept in the trace")
Path("/opt/ml/input/data/training/new.txt").write_text("not written")
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 8).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_paths_in_opt_ml_work_and_the_host_stays_as_it_is(tmp_path: Path) -> None:
    probe = tmp_path / "probe" / "ml"
    probe.mkdir(parents=True)
    try:
        _try_in_child(probe, [])
    except NamespaceUnavailable as refused:
        pytest.skip(f"this machine allows no private /opt/ml: {refused}")
    before = os.listdir("/opt")
    data = tmp_path / "data"
    data.mkdir()
    (data / "sample.txt").write_text("sample")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    trace = trace_script(TraceRequest(script, contract=Contract({"training": str(data)})))
    assert trace.steps == 3
    (note,) = trace.side_effects
    assert re.fullmatch(r"writing .*new\.txt", note.message)
    assert (os.listdir("/opt"), os.listdir(data)) == (before, ["sample.txt"])
