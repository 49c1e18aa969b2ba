"""`distributed()` with real torch processes on loopback, and alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli_sandbox import until
from support.ports import free_port
from support.runtime_script import Script

pytestmark = pytest.mark.slow

TRAIN = """
import json, os
import torch, gpuproof.runtime as rt
with rt.distributed(allow_cpu=True) as group:
    torch.manual_seed(group.rank)
    model = group.wrap(torch.nn.Linear(2, 1))
    data = torch.arange(8.0).reshape(4, 2)
    sampler = group.sampler(data, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=1, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
    plain = getattr(model, "module", model)
    rt.save(model, os.environ["GPUPROOF_PLACE"])
    group.wait()
    print(json.dumps({
        "rank": group.rank, "world": group.world_size, "local": group.local_rank, "backend": group.backend,
        "device": str(group.device), "rows": list(sampler), "weight": plain.weight.tolist(), "first": group.is_first,
        "same": rt.distributed() is group,
    }) + "\\n", end="", flush=True)
"""


def torchrun(folder: Path, code: str, *, name: str = "train.py", **variables: str) -> subprocess.Popen[str]:
    (folder / name).write_text(code)
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", name],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GPUPROOF_PLACE": str(folder / "model"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("torchrun")
    process = torchrun(folder, TRAIN)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "destroy_process_group" not in errors
    return folder, sorted(map(json.loads, output.splitlines()), key=lambda report: report["rank"])


@pytest.mark.xdist_group("torchrun")
def test_torchruns_processes_find_their_place(two: tuple[Path, list[dict[str, Any]]]) -> None:
    printed = [
        {name: report[name] for name in ("rank", "world", "local", "backend", "device")} for report in two[1]
    ]
    assert printed == [
        {"rank": rank, "world": 2, "local": rank, "backend": "gloo", "device": "cpu"} for rank in (0, 1)
    ]


@pytest.mark.xdist_group("torchrun")
def test_each_takes_its_share_of_the_data_and_all_keep_the_same_weights(
    two: tuple[Path, list[dict[str, Any]]],
) -> None:
    first, second = two[1]
    assert (first["rows"], second["rows"]) == ([0, 2], [1, 3])
    assert first["weight"] == second["weight"]


@pytest.mark.xdist_group("torchrun")
def test_the_first_rank_alone_saves_and_without_the_wrapper(two: tuple[Path, list[dict[str, Any]]]) -> None:
    import torch

    weights = torch.load(two[0] / "model" / "model.pth", weights_only=True)
    assert list(weights) == ["weight", "bias"]
    assert weights["weight"].tolist() == two[1][0]["weight"]


def test_hosts_of_a_sagemaker_job_meet_without_a_launcher(script: Script) -> None:
    # Two processes on one machine stand for two hosts, so both call the first one localhost.
    hosts = json.dumps(["localhost", "localhost.localdomain"])
    (script.folder / "train.py").write_text(
        TRAIN.replace(
            "import torch, gpuproof.runtime as rt",
            "import torch, gpuproof.runtime as rt, random, sys\n"
            "import gpuproof.runtime.distribution.process_group as p\np.TORCH_PORT = int(sys.argv[1])",
        )
    )
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, "train.py", port],
            cwd=script.folder,
            env={
                **os.environ,
                "SM_HOSTS": hosts,
                "SM_CURRENT_HOST": host,
                "GPUPROOF_PLACE": str(script.folder / "model"),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for host in json.loads(hosts)
    ]
    printed = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    assert [(report["rank"], report["world"], report["backend"]) for report in printed] == [
        (0, 2, "gloo"),
        (1, 2, "gloo"),
    ]


def test_one_process_alone_works_without_any_variable(script: Script) -> None:
    printed = json.loads(script(TRAIN, imported="torch", GPUPROOF_PLACE=str(script.folder / "model")))
    assert (printed["rank"], printed["world"], printed["backend"], printed["first"]) == (0, 1, None, True)
    assert printed["rows"] == [0, 1, 2, 3]


INTERRUPTED = """
import os, time, pathlib
import torch, gpuproof.runtime as rt
group = rt.distributed(allow_cpu=True)
model = group.wrap(torch.nn.Linear(2, 1))
kept = rt.checkpoint(model=model, folder=os.environ["GPUPROOF_PLACE"])
for epoch in kept.epochs(1000):
    for _ in kept.steps(range(1000)):
        model(torch.ones(1, 2)).sum().backward()
        pathlib.Path(os.environ["GPUPROOF_PLACE"], f"going-{group.rank}").touch()
"""


def test_all_processes_stop_at_one_step_after_sigterm(tmp_path: Path) -> None:
    process = torchrun(tmp_path, INTERRUPTED)
    place = tmp_path / "model"
    until(lambda: all((place / f"going-{rank}").exists() for rank in (0, 1)), "the first step")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert "stopped after epoch 0 and" in errors
    about = json.loads(next(place.glob("checkpoint-*/checkpoint.json")).read_text())
    assert about["progress"]["step"] % 10 == 0
