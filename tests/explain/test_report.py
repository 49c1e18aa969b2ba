"""Every error text on a realistic log, and ordinary noise that must stay quiet.

`logs/CODE.log` is a log whose root cause is CODE; `quiet/NAME.log` one in which nothing is wrong. A new one is a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.explain import Context, explain_lines, make_report
from gpuproof.explain.patterns import known_errors
from gpuproof.explain.render import format_json, format_no_cause
from gpuproof.explain.scan import scan_lines

HERE = Path(__file__).parent
LOGS = sorted((HERE / "logs").glob("*.log"))
QUIET = sorted((HERE / "quiet").glob("*.log"))


def test_every_error_text_has_a_log_and_every_log_an_error_text() -> None:
    assert {path.stem for path in LOGS} == {error.code for error in known_errors()}


def test_no_log_is_the_bare_message() -> None:
    assert [
        path.stem for path in LOGS if len(path.read_text().splitlines()) < 1 or path.stat().st_size < 60
    ] == []


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_root_cause_of_a_log_is_recognised_alone_and_first(path: Path, context: Context) -> None:
    lines = path.read_text().splitlines()
    found = explain_lines(lines, context, "train.log")
    assert [match.code for match in found] == [path.stem]
    (root,) = found
    assert root.line is not None
    assert root.text[:40] in lines[root.line - 1].replace("\t", " ")
    assert root.location.file == "train.log"


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_no_text_is_left_with_an_unfilled_place(path: Path, context: Context) -> None:
    for explain_line in explain_lines(path.read_text().splitlines(), context):
        output = f"{explain_line.cause} {explain_line.here or ''}"
        assert "[[" not in output
        assert "]]" not in output.replace("[[gpu]]", "")
        assert "None" not in output
        assert explain_line.cause.endswith((".", ")", "?"))
        assert explain_line.remedy


def _json_line(line: str) -> str:
    return json.dumps({"timestamp": 1763630042118, "message": line + "\n", "ingestionTime": 1763630044000})


WRAPPERS: dict[str, Callable[[str], str]] = {
    "cloudwatch json": _json_line,
    "aws logs tail": lambda line: f"2026-11-20T09:14:02.118000+00:00 resnet-2026/algo-1-1763630042 {line}",
    "mpirun": lambda line: f"[1,mpirank:3,algo-2]<stderr>:{line}",
    "docker compose": lambda line: f"\x1b[36malgo-1-x7k2p  |\x1b[0m {line}",
    "ray": lambda line: f"(train_loop pid=4411, ip=10.0.0.2) {line}",
    "progress bar": lambda line: f"  3%|▎  | 12/400 [00:01<00:40]\r  4%|▍  | 16/400 [00:01<00:39]\r{line}",
    "windows": lambda line: f"{line}\r",
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))
def test_what_a_collector_puts_around_the_lines_changes_nothing(
    wrapper: Callable[[str], str], context: Context
) -> None:
    wrong: list[tuple[str, list[str]]] = []
    for path in LOGS:
        found = explain_lines(map(wrapper, path.read_text().split("\n")), context)
        if [match.code for match in found] != [path.stem]:
            wrong.append((path.stem, [match.code for match in found]))
    assert wrong == []


@pytest.mark.parametrize("path", QUIET, ids=lambda path: path.stem)
def test_ordinary_noise_stays_quiet(path: Path, context: Context) -> None:
    report = make_report([scan_lines(path.read_bytes().splitlines())], context)
    assert report.explanations == ()
    assert not report.failed


def test_tensorflow_without_a_driver_is_a_warning_where_a_gpu_was_expected(catalogue: Catalogue) -> None:
    log = (HERE / "quiet" / "tensorflow_on_a_cpu_box.log").read_text().splitlines()
    expected = Context(catalogue=catalogue).on_instance("ml.g4dn.xlarge")
    (found,) = explain_lines(log, expected)
    assert (found.code, found.severity.value) == ("tf-no-driver", "warning")
    assert "ml.g4dn.xlarge has 1 x T4" in (found.here or "")
    assert [consequence.code for consequence in found.consequences] == ["cuda-init-no-device"]
    assert explain_lines(log, Context(catalogue=catalogue).on_instance("ml.m5.xlarge")) == []


def test_where_it_is_unknown_whether_a_gpu_was_expected_it_is_an_aside(context: Context) -> None:
    log = (HERE / "quiet" / "tensorflow_on_a_cpu_box.log").read_text().splitlines()
    (aside,) = make_report([scan_lines(log)], context).asides
    assert "Line 2" in aside
    assert "--instance-type" in aside


def test_a_log_without_a_gpu_has_a_cause_and_a_remedy_without_an_instance_type(context: Context) -> None:
    report = make_report([scan_lines(["GPU available: False, used: False", "Epoch 1: loss 0.3"])], context)
    assert (report.explanations, report.failed) == ((), False)
    (note,) = report.notes
    assert (note.code, note.severity.value) == ("no-gpu-reported", "note")
    printed = dict(format_no_cause(report, "train.log", 100))
    assert "sees no GPU" in printed["cause"]
    assert "gpuproof doctor" in printed["fix"]
    assert json.loads(format_json(report, "train.log"))["notes"][0]["code"] == "no-gpu-reported"


def test_a_log_that_ends_in_an_unknown_exception_has_an_unknown_cause(context: Context) -> None:
    report = make_report(
        [scan_lines(["GPU available: False, used: False", "mylib.Broken: no flux"])], context
    )
    assert report.cause_unknown


def test_a_memory_error_below_a_limit_of_the_process_is_not_the_hosts_memory(catalogue: Catalogue) -> None:
    limited = Context(
        catalogue=catalogue, machine="this machine", address_space=4 << 30, host_memory=64 << 30
    )
    (found,) = explain_lines(["MemoryError"], limited)
    assert "limited to 4.0 GiB of address space" in (found.here or "")
    assert "ulimit -v unlimited" in found.remedy
    assert "instance type" not in found.remedy
    unlimited = Context(catalogue=catalogue, host_memory=64 << 30)
    (found,) = explain_lines(["MemoryError"], unlimited)
    assert "ulimit -v" in found.cause
