"""`gpuproof.run` in the kernel of a notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

SCRIPT = """import sys, time
print('hello from the script: \\u2713', flush=True)
print('and an error', file=sys.stderr, flush=True)
time.sleep(1.2)
open('/opt/ml/model/w', 'w').write('w')
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The outputs of each cell of a notebook that was run by a real kernel."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    settings = {"GPUPROOF_STATE_DIR": str(folder / "state"), "GPUPROOF_CACHE_DIR": str(folder / "cache")}
    job = "gpuproof.TrainingJob(entry_point='train.py', hyperparameters={'epochs': 1})"
    sources = [
        f"import os; os.environ.update({settings})\nimport gpuproof\njob = {job}\njob",
        "gpuproof.run(job, dry_run=True)",
        "run = gpuproof.run(job)\nrun",
        "print(repr(run), run.record.status)",
        "gpuproof.check('train.py', select=['SM101'])",
        "import io\ntext = io.StringIO()\ngpuproof.run(job, logs=text)\nprint(text.getvalue())",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


def streamed(outputs: list[Any], name: str = "stdout") -> str:
    return "".join(
        output.text for output in outputs if output.output_type == "stream" and output.name == name
    )


def shown(outputs: list[Any], kind: str) -> list[str]:
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def test_a_job_shows_the_keys_that_were_given(cells: list[Any]) -> None:
    assert shown(cells[0], "text/plain") == [
        "TrainingJob(entry_point='train.py', hyperparameters={'epochs': 1})"
    ]


def test_a_dry_run_shows_the_plan(cells: list[Any]) -> None:
    (page,) = shown(cells[1], "text/html")
    assert "Plan of &#x27;train&#x27;" in page
    assert "1 source file" in page
    assert "train.py --epochs 1" in page


def test_the_output_of_the_script_appears(cells: list[Any]) -> None:
    assert "hello from the script: ✓" in streamed(cells[2])
    assert "and an error" in streamed(cells[2])


def test_the_progress_is_one_line_that_is_updated(cells: list[Any]) -> None:
    (line,) = [text for text in shown(cells[2], "text/plain") if "LocalRun" not in text]
    assert "Completed after " in line


def test_a_run_is_shown_as_a_table(cells: list[Any]) -> None:
    (page,) = shown(cells[2], "text/html")
    assert "Completed" in page
    assert "model.tar.gz" in page
    assert streamed(cells[3]).startswith("<LocalRun train-")
    assert "Completed" in streamed(cells[3])


def test_findings_are_shown_as_a_table(cells: list[Any]) -> None:
    (page,) = shown(cells[4], "text/html")
    assert "1 file checked" in page
    assert "<pre>" not in page


def test_a_text_stream_receives_the_output(cells: list[Any]) -> None:
    assert "hello from the script: ✓" in streamed(cells[5])


def test_the_stop_button_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    settings = {"GPUPROOF_STATE_DIR": str(tmp_path / "state"), "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")}
    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        code = "gpuproof.run(gpuproof.TrainingJob(entry_point='train.py'))"
        request = client.execute(f"import os; os.environ.update({settings})\nimport gpuproof\n{code}")
        while "ready" not in client.get_iopub_msg(timeout=300)["content"].get("text", ""):
            pass
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=300))["parent_header"].get("msg_id") != request:
            pass
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    (record,) = (tmp_path / "state" / "runs").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "Stopped"
