"""Verdicts on real processes through the stub NVML: the script registers its use of the GPU, the stub shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox
from support.nvml_stub import GPU_IS_LOST, STAYS, Scenario, build_library

pytestmark = pytest.mark.journey

FOREVER = "import time\ntime.sleep(600)\n"


@pytest.fixture
def machine(sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A machine with GPUs that the scenario names."""
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    # One build for all tests of this process.
    library = build_library(tmp_path_factory.getbasetemp() / "stub")
    sandbox.environment.update(scenario.environment(library))
    return scenario


def busy(sandbox: CliSandbox, files: list[Path], looks: int = 4) -> None:
    """A script that registers itself with the stub, and ends when the agent has looked so often since."""
    seen = str(sandbox.project.parent / "looks")
    sandbox.write("train.py", STAYS.format(files=[str(path) for path in files], looks=seen, count=looks))


def test_a_gpu_that_worked_is_used_and_the_code_is_0(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0).when_registered(tmp_path / "pid", util=87, memory_mib=9000).write()
    busy(sandbox, [tmp_path / "pid"])
    result = sandbox.run_json("train.py", "--instance-type", "ml.g5.xlarge", "--require-gpu")
    verdict = result["verdict"]
    assert (verdict["outcome"], result["exit_code"]) == ("used", 0)
    gpu = verdict["gpus"][0]
    assert gpu["judged_by"] == "processes"
    assert gpu["mean_utilization"] == pytest.approx(87, abs=1)
    assert gpu["peak_memory"] == 9000 * 2**20


def test_an_untouched_gpu_is_code_4(sandbox: CliSandbox, machine: Scenario) -> None:
    machine.gpu(0).write()
    busy(sandbox, [])
    done = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.g5.xlarge")
    assert done.returncode == 4
    assert "cpu-only" in done.stderr


def test_a_gpu_that_was_held_and_did_nothing_is_idle(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0).when_registered(tmp_path / "pid", util=0, memory_mib=400, power_w=30).write()
    busy(sandbox, [tmp_path / "pid"])
    result = sandbox.run_json("train.py", "--instance-type", "ml.g5.xlarge")
    assert (result["verdict"]["outcome"], result["exit_code"]) == ("idle", 4)


def test_two_of_four_gpus_idle_are_reported_with_code_4(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpus(4)
    files = [tmp_path / "0", tmp_path / "2"]
    machine.when_registered(files[0], 0).when_registered(files[1], 2).write()
    busy(sandbox, files)
    done = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.g5.12xlarge")
    assert done.returncode == 4
    assert "partly used: 2 of 4" in done.stderr


def test_a_partly_used_machine_is_accepted_with_no_require_gpu_and_still_called_so(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpus(4).when_registered(tmp_path / "0", 0).write()
    busy(sandbox, [tmp_path / "0"])
    result = sandbox.run_json("train.py", "--instance-type", "ml.g5.12xlarge", "--no-require-gpu")
    assert (result["verdict"]["outcome"], result["exit_code"]) == ("partly used", 0)
    assert result["run"]["verdict"] == "partly used"
    assert "partly used" in sandbox.gpuproof("ps").stdout


def test_a_gpu_that_only_spins_is_occupied_with_code_4(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), power_limit_w=700)
    machine.spins(tmp_path / "pid").run_in_real_time()
    # Samples are at least a quarter of a second apart, and five seconds of them are evidence.
    busy(sandbox, [tmp_path / "pid"], looks=26)
    done = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.p5.4xlarge")
    assert done.returncode == 4
    shown = " ".join(done.stderr.split())
    assert "occupied: GPU 0 did no work (busy 100%" in shown
    assert "a kernel that computes nothing occupies 1 of 132 multiprocessors" in shown
    assert "FAILED: the requested GPU did no work (exit code 4" in shown
    assert "occupied" in sandbox.gpuproof("ps").stdout
    result = sandbox.run_json("train.py", "--instance-type", "ml.p5.4xlarge", "--no-require-gpu")
    assert (result["verdict"]["outcome"], result["exit_code"]) == ("occupied", 0)
    assert result["verdict"]["gpus"][0]["activity"]["certainty"] == "measured"


def test_work_of_another_process_is_not_the_jobs(sandbox: CliSandbox, machine: Scenario) -> None:
    # Process 1 is there on every machine, and is not the script's.
    machine.gpu(0).at(0, util=95, memory_mib=20_000, processes={1: 20_000}).write()
    busy(sandbox, [])
    result = sandbox.run_json("train.py", "--instance-type", "ml.g5.xlarge")
    assert result["verdict"]["outcome"] == "cpu-only"
    assert result["exit_code"] == 4


def test_without_a_requested_gpu_none_is_expected(sandbox: CliSandbox, machine: Scenario) -> None:
    machine.gpu(0).write()
    busy(sandbox, [])
    result = sandbox.run_json("train.py")
    assert (result["verdict"]["outcome"], result["exit_code"]) == ("no-gpu-expected", 0)


def test_nvml_that_fails_midway_leaves_a_verdict(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0).when_registered(tmp_path / "pid", util=70).write()
    lost = Scenario(tmp_path / "lost.txt").seen(tmp_path / "looks").gpu(0).fail("*", GPU_IS_LOST).write()
    busy(sandbox, [tmp_path / "pid"])
    works = (sandbox.project / "train.py").read_text()
    sandbox.write("train.py", f"{works}os.replace({str(lost.path)!r}, {str(machine.path)!r})\n{works}")
    result = sandbox.run_json("train.py", "--instance-type", "ml.g5.xlarge")
    assert result["run"]["status"] == "Completed"
    assert result["verdict"]["outcome"] == "used"
    assert any("lost" in note.lower() for note in [*result["verdict"]["notes"], result["verdict"]["reason"]])


def test_a_job_that_does_not_touch_its_gpu_is_stopped(sandbox: CliSandbox, machine: Scenario) -> None:
    machine.gpu(0).write()
    sandbox.write("train.py", FOREVER)
    sandbox.write(
        "gpuproof.yaml",
        "entry_point: train.py\ninstance_type: ml.g5.xlarge\nif_gpu_unused: {action: stop, grace: 4s}\n",
    )
    result = sandbox.run_json()
    assert result["run"]["status"] == "Stopped"
    assert "no GPU did any work in the first 4 s" in result["run"]["failure_reason"]
    assert result["exit_code"] == 4


@pytest.mark.slow
def test_a_job_whose_gpu_only_spins_is_stopped(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), power_limit_w=700)
    machine.spins(tmp_path / "pid").run_in_real_time()
    busy(sandbox, [tmp_path / "pid"])
    works = (sandbox.project / "train.py").read_text()
    sandbox.write("train.py", f"{works}{FOREVER}")
    sandbox.write(
        "gpuproof.yaml",
        "entry_point: train.py\ninstance_type: ml.p5.4xlarge\nif_gpu_unused: {action: stop, grace: 15s}\n",
    )
    result = sandbox.run_json()
    assert (result["run"]["status"], result["exit_code"]) == ("Stopped", 4)
    assert result["verdict"]["outcome"] == "occupied"


def test_a_job_that_touches_its_gpu_in_time_goes_on(
    sandbox: CliSandbox, machine: Scenario, tmp_path: Path
) -> None:
    machine.gpu(0).when_registered(tmp_path / "pid").write()
    busy(sandbox, [tmp_path / "pid"])
    works = (sandbox.project / "train.py").read_text()
    sandbox.write("train.py", f"{works}time.sleep(16)\n")
    sandbox.write(
        "gpuproof.yaml",
        "entry_point: train.py\ninstance_type: ml.g5.xlarge\nif_gpu_unused: {action: fail, grace: 15s}\n",
    )
    result = sandbox.run_json()
    assert (result["run"]["status"], result["exit_code"]) == ("Completed", 0)


# Ends when its run has been reported.
UNTIL_REPORTED = """
import glob, time
while not any("no GPU did any work" in open(name).read() for name in glob.glob({states!r})):
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("action", "status", "code"), [("fail", "Failed", 4), ("warn", "Completed", 4)])
def test_what_an_unused_gpu_does_is_the_jobs_choice(
    sandbox: CliSandbox, machine: Scenario, action: str, status: str, code: int
) -> None:
    machine.gpu(0).write()
    sandbox.write(
        "train.py",
        FOREVER if action == "fail" else UNTIL_REPORTED.format(states=f"{sandbox.runs}/*/run.json"),
    )
    sandbox.write(
        "gpuproof.yaml",
        f"entry_point: train.py\ninstance_type: ml.g5.xlarge\nif_gpu_unused: {{action: {action}, grace: 4s}}\n",
    )
    result = sandbox.run_json()
    assert (result["run"]["status"], result["exit_code"]) == (status, code)
    output = [*result["run"]["notes"], result["run"]["failure_reason"] or ""]
    assert any("no GPU did any work" in text for text in output)


def test_require_gpu_does_not_start_without_one(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('started')")
    done = sandbox.gpuproof("run", "train.py", "--require-gpu")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "requires a GPU" in done.stderr
    assert not sandbox.runs.exists() or not list(sandbox.runs.iterdir())


def test_no_require_gpu_lets_a_gpu_job_be_tried_on_a_laptop(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print('started')")
    sandbox.write("gpuproof.yaml", "entry_point: train.py\ninstance_type: ml.g5.xlarge\n")
    asked = sandbox.gpuproof("run")
    assert asked.returncode == 4
    assert "this machine has none" in asked.stderr
    assert sandbox.gpuproof("run", "--no-require-gpu").returncode == 0


def test_the_number_of_gpus_reaches_the_script(sandbox: CliSandbox, machine: Scenario) -> None:
    machine.gpus(4).write()
    sandbox.write("train.py", "import os; print(os.environ['SM_NUM_GPUS'])")
    assert sandbox.gpuproof("run", "train.py").stdout == "4\n"
