"""`gpuproof check --watch` as a process: it checks again when a file changes, and ends with Ctrl-C."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.check_helpers import write_files

pytestmark = pytest.mark.slow
CLEAN, BROKEN = "x = 1\n", "x = (\n"


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    write_files(tmp_path, {"a.py": CLEAN})
    command = [sys.executable, "-m", "gpuproof", "check", "--watch"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    yield process
    process.kill()
    process.wait()


def report(process: subprocess.Popen[str]) -> str:
    """The output up to the line that says that it waits."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if "Waiting for changes" in line:
            break
    return "".join(lines)


def wait_for_text(file: Path, text: str) -> None:
    deadline = time.monotonic() + 300
    while text not in file.read_text():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.1)


def test_a_change_a_new_file_and_a_removed_one_are_checked(
    watch: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert "1 file checked, no issues found." in report(watch)
    write_files(tmp_path, {"a.py": BROKEN})
    assert "a.py:1:5: error E901" in report(watch)
    write_files(tmp_path, {"new/b.py": CLEAN})
    assert "2 files checked: 1 error." in report(watch)
    (tmp_path / "a.py").unlink()
    assert "1 file checked, no issues found." in report(watch)
    write_files(tmp_path, {"new/b.py": BROKEN})
    assert "new/b.py:1:5: error E901" in report(watch)


def test_invalid_settings_are_reported_and_the_watch_continues(
    watch: subprocess.Popen[str], tmp_path: Path
) -> None:
    report(watch)
    write_files(tmp_path, {"pyproject.toml": '[tool.gpuproof.check]\nselect = ["XX999"]\n'})
    assert "unknown rule: XX999" in report(watch)
    (tmp_path / "pyproject.toml").unlink()
    assert "no issues found" in report(watch)


def test_its_own_output_and_logs_in_the_folder_start_no_check(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": BROKEN, "train.log": "step 1"})
    with (tmp_path / "report.txt").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "check", "--watch"], cwd=tmp_path, stdout=output, stderr=output
        )
    reports = tmp_path / "report.txt"
    wait_for_text(reports, "Waiting for changes")
    write_files(tmp_path, {"train.log": "step 1, step 2"})
    time.sleep(1)  # an endless loop would write many reports
    assert reports.read_text().count("Waiting for changes") == 1
    write_files(tmp_path, {"a.py": CLEAN})
    wait_for_text(reports, "no issues found")
    process.kill()
    process.wait()


def test_an_interrupt_ends_it_with_code_0(watch: subprocess.Popen[str]) -> None:
    report(watch)
    watch.send_signal(signal.SIGINT)
    assert watch.wait(300) == 0


@pytest.mark.parametrize("other", ["--fix", "--diff", "--write-baseline"])
def test_options_that_exclude_each_other_are_rejected(other: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuproof", "check", "--watch", other]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert f"--watch cannot be combined with {other}" in done.stderr
