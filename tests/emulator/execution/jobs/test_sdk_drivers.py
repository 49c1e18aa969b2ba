from __future__ import annotations

from pathlib import Path

from gpuproof.emulator.execution.jobs.sdk_drivers import driver_problem


def sent(ml: Path, script: str) -> None:
    """Write the script that the SDK v3 sends."""
    folder = ml / "input" / "data" / "sm_drivers"
    folder.mkdir(parents=True)
    (folder / "sm_train.sh").write_text(script)


def test_the_mpi_program_of_the_sdk_v3_is_refused_with_what_to_use(tmp_path: Path):
    sent(tmp_path, "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/mpi_driver.py\n")
    problem = driver_problem(tmp_path)
    assert problem is not None
    assert "ssh" in problem
    assert "--distribution mpi" in problem


def test_the_other_programs_and_other_jobs_are_started(tmp_path: Path):
    assert driver_problem(tmp_path) is None
    sent(tmp_path, "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/torchrun_driver.py\n")
    assert driver_problem(tmp_path) is None
