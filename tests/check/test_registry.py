"""The registry of rules, and their selection."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.errors import UsageError
from gpuproof.linter.registry import Selection, imported_entries, index_of, indexed_entries, select_rules


def test_strict_rules_are_off_unless_selected() -> None:
    on = {rule.code for rule in select_rules(Selection())}
    strict = {rule.code for rule in select_rules(Selection(select=("ALL",))) if rule.when == "strict"}
    assert "E901" in on
    assert not on & strict
    assert strict <= {rule.code for rule in select_rules(Selection(extend=tuple(strict)))}


@pytest.mark.parametrize(
    ("selection", "on"),
    [
        (Selection(select=("E901",)), True),
        (Selection(select=("E",)), True),
        (Selection(select=("syntax-error",)), True),
        (Selection(select=("DS",)), False),
        (Selection(ignore=("E9",)), False),
        (Selection(select=("E901",), ignore=("E",)), True),
        (Selection(select=("E",), ignore=("E901",)), False),
        (Selection(select=("DS",), extend=("E901",)), True),
    ],
)
def test_the_closer_word_wins(selection: Selection, on: bool) -> None:
    assert ("E901" in {rule.code for rule in select_rules(selection)}) is on


def test_a_code_that_means_nothing_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="E9001"):
        select_rules(Selection(select=("E9001",)))


def test_the_index_has_every_rule() -> None:
    assert index_of(indexed_entries()) == index_of(imported_entries()), "run: python tools/build_rule_docs.py"


def test_an_entry_imports_its_own_rule() -> None:
    assert [entry.rule.code for entry in indexed_entries()] == [entry.code for entry in indexed_entries()]


def imported_by_a_check(folder: Path, text: str, name: str) -> set[str]:
    """The modules of the linter that `gpuproof run` imports to check a script, in a fresh Python."""
    (folder / name).write_text(text)
    code = (
        "import sys, gpuproof; from gpuproof.linter.preflight import check_job; "
        f"check_job(gpuproof.TrainingJob(entry_point={name!r}, source_dir={str(folder)!r})); "
        "print(*(name for name in sys.modules if name.startswith('gpuproof.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.removeprefix("gpuproof.") for name in done.stdout.split()}


def test_a_job_imports_only_the_rules_that_its_script_can_break(tmp_path: Path) -> None:
    found = imported_by_a_check(tmp_path, "print(1)\n", "train.py")
    assert not [
        name for name in found if name.startswith(("linter.rules.pytorch.", "linter.rules.tensorflow."))
    ]
    assert "linter.rules.docker.dk102_cpu_build_in_gpu_image" not in found  # its kinds are others
    assert found.isdisjoint({"linter.jobs.link", "trace.document"})
    found = imported_by_a_check(
        tmp_path, "import torch\nmodel = torch.nn.Linear(1, 1).cuda()\n", "torch_script.py"
    )
    assert [name for name in found if name.startswith("linter.rules.pytorch.")]
