"""`gpuproof check` and `gpuproof rule`, as a person types them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_count=1, instance_type="{type}").fit()
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(8, 1).to(device)
for x, y in DataLoader([]):
    loss = model(x.to(device)).sum()
    loss.backward()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def gpuproof(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = main(list(words))
        except SystemExit as error:
            code = int(error.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_idle_gpus_are_named_with_their_price(here: Path, gpuproof) -> None:
    write_files(here, {"launch.py": LAUNCH.format(type="ml.g5.12xlarge"), "train.py": TRAIN})
    code, out, err = gpuproof("check", "--select", "DS101")
    words = " ".join(out.split())
    assert (code, err) == (1, "")
    assert "launch.py:4:65: error DS101 idle-gpus" in out
    assert "`ml.g5.12xlarge` has 4 GPUs; nothing in `train.py` uses more than one: 3 idle, $" in words


def test_a_clean_folder_leaves_with_0(here: Path, gpuproof) -> None:
    write_files(here, {"launch.py": LAUNCH.format(type="ml.g5.xlarge"), "train.py": TRAIN})
    assert gpuproof("check", "--select", "DS101")[:2] == (0, "2 files checked, no issues found.\n")


def test_exit_zero_leaves_with_0_whatever_is_found(here: Path, gpuproof) -> None:
    write_files(here, {"a.py": "x = ("})
    assert gpuproof("check")[0] == 1
    assert gpuproof("check", "--exit-zero")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("check", "nothing.py"),
        ("check", "--select", "XX999"),
        ("check", "--format", "xml"),
        ("check", "--sagemaker-sdk", "1"),
        ("check", "--instance-type", "ml.g5.3xlarge"),
        ("check", "--unsafe-fixes"),
        ("rule", "XX999"),
    ],
)
def test_wrong_usage_leaves_with_2(words: tuple[str, ...], gpuproof) -> None:
    code, out, err = gpuproof(*words)
    assert (code, out) == (2, "")
    assert err


def test_what_if_checks_against_another_instance(here: Path, gpuproof) -> None:
    write_files(here, {"launch.py": LAUNCH.format(type="ml.g5.xlarge"), "train.py": TRAIN})
    code, out, _ = gpuproof("check", "--select", "DS101", "--instance-type", "ml.g5.48xlarge")
    assert code == 1
    assert "`ml.g5.48xlarge` has 8 GPUs" in out


def test_what_if_takes_a_script_that_no_job_runs(here: Path, gpuproof) -> None:
    write_files(here, {"train.py": TRAIN})
    code, out, _ = gpuproof("check", "--select", "DS101", "train.py", "--instance-type", "g5.12xlarge")
    assert code == 1
    assert "`ml.g5.12xlarge` has 4 GPUs" in out


def test_what_if_takes_no_module_that_a_script_imports_for_a_job(here: Path, gpuproof) -> None:
    helper = "import pandas as pd\n\n\ndef table() -> object:\n    return pd.read_csv('table.csv')\n"
    write_files(here, {"train.py": f"from table import table\n{TRAIN}\ntable()\n", "table.py": helper})
    assert "table.py" not in gpuproof("check", "--select", "CO105", "--instance-type", "ml.g5.xlarge")[1]
    assert (
        "table.py:1"
        in gpuproof("check", "--select", "CO105", "table.py", "--instance-type", "ml.g5.xlarge")[1]
    )


def test_fix_mends_and_diff_only_shows(here: Path, gpuproof) -> None:
    before = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--a", type=bool)\n'
    write_files(here, {"a.py": before})
    code, out, _ = gpuproof("check", "--select", "SM106", "--diff")
    assert code == 1
    assert '-parser.add_argument("--a", type=bool)' in out
    assert (here / "a.py").read_text() == before
    code, out, _ = gpuproof("check", "--select", "SM106", "--fix")
    assert (code, "Fixed 1 finding." in out) == (0, True)
    assert "type=bool" not in (here / "a.py").read_text()


def test_a_file_that_cannot_be_written_is_reported(
    here: Path, gpuproof, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(here, {"a.py": 'import argparse\nargparse.ArgumentParser().add_argument("--a", type=bool)\n'})

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpuproof.linter.fixing.apply.replacing", refuse)
    code, _, err = gpuproof("check", "--select", "SM106", "--fix")
    assert code == 1
    assert "a.py cannot be written: permission denied. The file is unchanged." in err


def test_statistics_count_by_rule(here: Path, gpuproof) -> None:
    write_files(here, {"a.py": "x = (", "b.py": "x = ("})
    _, out, _ = gpuproof("check", "--statistics")
    assert out.splitlines()[0].split() == ["2", "E901", "error", "syntax-error"]


def test_explain_and_rule_print_the_same_page(gpuproof) -> None:
    assert gpuproof("rule", "ds101") == gpuproof("check", "--explain", "idle-gpus")
    assert gpuproof("rule", "DS101")[1].startswith("# DS101: idle-gpus\n")


def test_rule_lists_all(gpuproof) -> None:
    code, out, _ = gpuproof("rule")
    assert code == 0
    assert "DS101" in out
    document = json.loads(gpuproof("rule", "--format", "json")[1])
    assert {"code", "name", "severity", "on", "summary", "reason", "examples"} <= set(document["rules"][0])


def test_markdown_is_checked_only_on_request(here: Path, gpuproof) -> None:
    write_files(here, {"a.md": "# x\n\n```python\nx = (\n```\n"})
    assert gpuproof("check")[0] == 0
    code, out, _ = gpuproof("check", "--markdown")
    assert code == 1
    assert "a.md:4:5" in out


def test_nothing_heavy_is_imported_to_check_a_script(here: Path) -> None:
    write_files(here, {"launch.py": LAUNCH.format(type="ml.g5.12xlarge"), "train.py": TRAIN})
    program = (
        "import sys; from gpuproof.cli.main import main; main(['check', 'launch.py', 'train.py']);"
        "print(sorted({'boto3', 'botocore', 'pydantic', 'yaml', 'torch', 'tensorflow', 'sagemaker', 'jsonschema',"
        " 'multiprocessing', 'pathspec'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_facts_are_read_where_no_rule_needs_them(
    here: Path, gpuproof, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the catalogue was queried")

    monkeypatch.setattr("gpuproof.catalogue.catalogue.Catalogue.load", refuse)
    write_files(here, {"a.py": "import torch\nx = 1\n"})
    assert gpuproof("check")[0] == 0


def test_an_internal_error_has_its_own_code_and_every_format_stays_valid(
    here: Path, gpuproof, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuproof.linter.registry import find_rule

    write_files(here, {"launch.py": LAUNCH.format(type="ml.g5.12xlarge"), "train.py": TRAIN})
    rule = find_rule("DS101")
    assert rule is not None

    def fail(*_: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(rule, "jobs", [*rule.jobs, fail])
    code, out, err = gpuproof("check", "--select", "DS101")
    assert (code, err) == (70, "")
    assert "error DS101 idle-gpus" in out
    assert "launch.py: internal error" in out
    assert "1 error, 1 internal error." in out
    assert gpuproof("check", "--select", "DS101", "--exit-zero")[0] == 70
    document = json.loads(gpuproof("check", "--format", "json")[1])
    assert "DS101" in {finding["code"] for finding in document["findings"]}
    assert [error["rules"] for error in document["internal_errors"]] == [["DS101"]]
    assert gpuproof("check", "--ignore", "DS101")[0] != 70
    code, _, err = gpuproof("check", "--diff")
    assert code == 70
    assert "rule DS101 failed" in err


def test_a_bug_outside_the_rules_gives_valid_output_too(
    here: Path, gpuproof, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuproof.linter import engine

    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("bug")

    monkeypatch.setattr(engine, "find_files", fail)
    code, out, _ = gpuproof("check", "--format", "json")
    assert code == 70
    assert json.loads(out)["internal_errors"][0]["message"] == "checking failed: KeyError: 'bug'"


def test_invalid_settings_below_the_path_have_code_2_after_all_findings(here: Path, gpuproof) -> None:
    write_files(here, {"a/pyproject.toml": "[tool.gpuproof.check]\nselct = []\n", "b/x.py": "x = (\n"})
    code, out, err = gpuproof("check")
    assert code == 2
    assert "b/x.py:1:5: error E901" in out
    assert "unknown key 'selct'" in err
