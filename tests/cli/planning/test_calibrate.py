"""`gpuproof calibrate`, with the CPU in place of a GPU."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.planning.calibration.measurements import script_text

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "calibrations"


@pytest.mark.slow
@pytest.mark.nightly
def test_the_cpu_is_measured_traced_and_fitted(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu", "--budget", "24h", "--output", "measured.json", "--format", "json"]
    assert main(["calibrate", *words]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["version"], document["gpu"], document["file"]) == (1, "CPU", str(state / "CPU.json"))
    models = {(step["model"], step["precision"]) for step in document["steps"]}
    measured = json.loads(Path("measured.json").read_text())["steps"]
    skipped = {(step["model"], step["precision"]) for step in measured if "skipped" in step}
    assert skipped <= {("lstm", "half")}  # oneDNN lacks it for CPUs without AVX-512
    assert len(models) == 12 - len(skipped)
    assert all(step["seconds"] > 0 and step["before"] > 0 and step["after"] > 0 for step in document["steps"])
    rates = document["coefficients"]["time"]["gpus"]["CPU"]["half"]
    assert rates["tier"] == "calibrated"
    # The file that was kept says the same on another machine, and the table is for people.
    assert main(["calibrate", "--import", "measured.json"]) == 0
    text = capfd.readouterr().out
    assert f"CPU: {len(models)} steps of six models" in text
    assert "Median error of a step: " in text
    assert "No plan uses it" in text


@pytest.mark.slow
def test_the_script_runs_alone_where_only_pytorch_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--script", "measure_gpu.py"]) == 0
    words = [sys.executable, "-I", "measure_gpu.py", "--device", "cpu", "--small", "--budget", "0"]
    subprocess.run([*words, "--output", "out/calibration.json"], check=True, cwd=tmp_path)
    document = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert all(step["skipped"] == "no time was left (--budget)" for step in document["steps"])
    assert len(document["products"]) == 6
    assert main(["calibrate", "--import", "out/calibration.json"]) == 1
    assert "Fewer than two models" in capsys.readouterr().err
    assert main(["calibrate", "--script", "measure_gpu.py"]) == 2
    assert "measure_gpu.py exists" in capsys.readouterr().err


def test_without_a_gpu_nothing_is_stored(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["calibrate"]) == 3
    assert "There is no GPU to calibrate here." in capsys.readouterr().err
    assert not state.exists()


@pytest.mark.slow
def test_ctrl_c_stores_nothing(state: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "gpuproof", "calibrate", "--device", "cpu"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    with process, process.stderr:
        assert any("convnet, float32" in line for line in process.stderr)
        os.killpg(process.pid, signal.SIGINT)
        process.stderr.read()
        assert process.wait() == 130
    assert not state.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--script", "a.py", "--import", "b.json"],
        ["--import", "b.json", "--output", "c.json"],
        ["--budget", "soon"],
        ["--import", "none.json"],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    assert main(["calibrate", *words]) == 2


def test_the_script_is_python_3_9_and_needs_only_pytorch() -> None:
    tree = ast.parse(script_text(), feature_version=(3, 9))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"torch"}


def test_what_pytorch_cannot_run_here_is_skipped_with_its_reason(tmp_path: Path) -> None:
    import torch  # loads slowly

    from gpuproof.planning.calibration.measure_gpu import Models, measure

    class NoPrimitive(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, _rows: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("could not create a primitive\nSet ONEDNN_VERBOSE.")

    def data(count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(count, 2, device=device), torch.zeros(count, dtype=torch.int64, device=device)

    known: Models = {"refused": (NoPrimitive, data, 1), "linear": (lambda: torch.nn.Linear(2, 2), data, 1)}
    assert measure(known, tmp_path / "out.json", "cpu", 3600, small=True, batches=1) == 0
    steps = json.loads((tmp_path / "out.json").read_text())["steps"]
    assert {step.get("skipped") for step in steps if step["model"] == "refused"} == {
        "PyTorch cannot run it here: could not create a primitive"
    }
    assert all(step["seconds"] > 0 for step in steps if step["model"] == "linear")
