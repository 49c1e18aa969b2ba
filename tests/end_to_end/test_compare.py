"""Two runs of a script on this machine, compared; and a baseline in a repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.cli_sandbox import CliSandbox
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = pytest.mark.journey

# The clock is the script's own, so that the rates are the same on any machine.
SCRIPT = """
import sys
import gpuproof.runtime as rt
from gpuproof.runtime import throughput

class Clock:
    now = 100.0
    def monotonic(self):
        return self.now

clock = throughput.time = Clock()
for step in range(300):
    clock.now += float(sys.argv[2]) * (1.01 if step % 2 else 0.99)
    rt.log_throughput(10)
"""


def finished(sandbox: CliSandbox, seconds: str) -> str:
    run = sandbox.run_json("train.py", "--", "--seconds", seconds)["run"]
    assert run["status"] == "Completed"
    return str(run["id"])


def test_a_slower_run_exceeds_the_limit_and_its_cause_is_named(sandbox: CliSandbox, tmp_path: Path) -> None:
    sandbox.write("train.py", SCRIPT)
    sandbox.write("gpuproof.yaml", "name: train\nentry_point: train.py\n")
    fast, slow = finished(sandbox, "0.50"), finished(sandbox, "0.60")

    same = sandbox.gpuproof("compare", fast, fast, "--max-slower", "5%")
    assert same.returncode == 0, same.stderr
    assert "No difference that exceeds the noise within the runs." in same.stdout

    worse = sandbox.gpuproof("compare", fast, slow, "--max-slower", "5%", "--html", "runs.html")
    assert worse.returncode == 1, worse.stderr
    page = (sandbox.project / "runs.html").read_text(encoding="utf-8")
    assert "<title>2 runs compared (limit exceeded)" in page
    assert "--max-slower 5%: exceeded: time of an example +20.0%" in worse.stdout
    assert "argument --seconds" in worse.stdout
    assert sandbox.gpuproof("compare", fast, slow, "--max-slower", "30%").returncode == 0
    assert sandbox.gpuproof("compare", fast, slow, "--max-cost", "5%").returncode == 3

    document = json.loads(sandbox.gpuproof("compare", f"{fast},{fast}", slow, "--format", "json").stdout)
    speed = next(row for row in document["measures"] if row["name"] == "examples_per_s")
    assert speed["changes"][0]["share"] == pytest.approx(-1 / 6, abs=0.001)
    assert speed["changes"][0]["noise_from"] == "runs"

    none = sandbox.gpuproof("compare", fast)
    assert (none.returncode, "gpuproof baseline set RUN" in none.stderr) == (2, True)
    stored = sandbox.gpuproof("baseline", "set", fast)
    assert stored.returncode == 0, stored.stderr
    assert (sandbox.project / ".gpuproof" / "baseline.json").is_file()
    shutil.rmtree(sandbox.runs / fast)
    # On a fresh machine there is only what the repository has.
    against = sandbox.gpuproof("compare", slow, "--max-slower", "5%")
    assert against.returncode == 1, against.stderr
    assert f"baseline: {fast}" in against.stdout
    folder = sandbox.gpuproof("compare", sandbox.runs / slow, "--baseline", "--max-slower", "30%")
    assert folder.returncode == 0, folder.stderr
    shown = json.loads(sandbox.gpuproof("baseline", "show", "--json").stdout)
    assert [run["run"] for run in shown["baselines"]["train"]["runs"]] == [fast]
    assert "Removed" in sandbox.gpuproof("baseline", "rm").stdout
    assert not (sandbox.project / ".gpuproof" / "baseline.json").exists()


def test_what_cannot_be_compared_is_said(sandbox: CliSandbox) -> None:
    sandbox.write("fails.py", "raise SystemExit(3)\n")
    failed = sandbox.run_json("fails.py")["run"]
    done = sandbox.gpuproof("baseline", "set", failed["id"])
    assert (done.returncode, "it ended as Failed" in done.stderr) == (2, True)
    sandbox.write("notes.json", "[]")
    done = sandbox.gpuproof("compare", "notes.json", failed["id"])
    assert (done.returncode, "no verdict.json" in done.stderr) == (2, True)
    done = sandbox.gpuproof("compare", failed["id"], failed["id"], "--max-slower", "0.05")
    assert done.returncode == 2


def pipeline_steps(service: str) -> list[str]:
    """The commands of a pipeline of docs/ci.md."""
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
    (block,) = (
        document
        for document in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
        if "compare" in (document if service == "gitlab" else document.get("jobs", ()))
    )
    if service == "gitlab":
        return list(block["compare"]["script"])
    return [step["run"] for step in block["jobs"]["compare"]["steps"] if "run" in step]


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_the_pipelines_of_the_page_compare_with_the_baseline(
    sandbox: CliSandbox, tmp_path: Path, service: str
) -> None:
    """Their commands, but for installation and credentials, on this machine instead of SageMaker."""
    *_, run, compare = pipeline_steps(service)
    # Runs on this machine have no cost, and without a GPU no memory of one.
    local = run.replace(" --on sagemaker", "")
    limits = re.sub(r" --max-(cost|memory) \S+", "", compare)
    assert (local, limits) != (run, compare)
    sandbox.write("train.py", SCRIPT)
    job = "name: train\nentry_point: train.py\narguments: [--seconds, '{}']\n"
    sandbox.write("gpuproof.yaml", job.format(0.5))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gpuproof").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpuproof "$@"\n')
    (programs / "gpuproof").chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = {
        **sandbox._environment(),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
    }

    def step(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=sandbox.project,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
        )

    assert step(local).returncode == 0
    assert step("gpuproof baseline set train").returncode == 0
    assert step(local).returncode == 0
    assert step(limits).returncode == 0
    sandbox.write("gpuproof.yaml", job.format(0.6))
    assert step(local).returncode == 0
    slower = step(limits)
    assert (slower.returncode, "--max-slower 5%: exceeded" in slower.stdout) == (1, True)
    if service == "github":
        assert summary.read_text().endswith(slower.stdout)
    else:
        assert "limit exceeded" in (sandbox.project / "compare.html").read_text()


def test_a_run_with_more_gpu_memory_exceeds_its_limit(
    sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    looks, pid = tmp_path / "looks", tmp_path / "pid"
    scenario = Scenario(tmp_path / "gpus.txt").seen(looks)
    sandbox.environment.update(scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    sandbox.write("train.py", STAYS.format(files=[str(pid)], looks=str(looks), count=4))
    runs: list[str] = []
    for memory in (3000, 4000):
        pid.unlink(missing_ok=True)
        Scenario(tmp_path / "gpus.txt").seen(looks).gpu(0).when_registered(
            pid, util=87, memory_mib=memory
        ).write()
        run = sandbox.run_json("train.py", "--instance-type", "ml.g5.xlarge")["run"]
        runs.append(run["id"])
    done = sandbox.gpuproof("compare", *runs, "--max-memory", "+10%")
    assert done.returncode == 1, done.stderr
    assert "--max-memory 10%: exceeded: GPU memory +33.3%; the noise is unknown" in done.stdout
    assert sandbox.gpuproof("compare", *runs, "--max-memory", "+40%").returncode == 0
    assert sandbox.gpuproof("compare", *reversed(runs), "--max-memory", "0%").returncode == 0
