"""The findings of a project do not depend on the folder in which the check is started, nor on other projects."""

import json
import os
from pathlib import Path

import pytest

from gpuproof.linter.config import read_settings
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from gpuproof.linter.source.project_root import project_root
from support.check_helpers import write_files

NUMPY = """
import torch; torch.set_grad_enabled(False)
model = torch.nn.Linear(4, 2).to("cuda")
scores = model(torch.ones(1, 4).to("cuda")).numpy()
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader
from config import WIDTH
from pkg.net import Net
model = Net(WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=1)
for x, y in DataLoader([], num_workers=2):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
LAUNCH = """
from sagemaker.pytorch import PyTorch
PyTorch(entry_point="{entry}", source_dir={source!r}, instance_count=1, instance_type="ml.g5.12xlarge").fit()
"""
CELLS = [{"cell_type": "code", "source": LAUNCH.format(entry="train.py", source="src")}]
PROJECT = {
    "src/train.py": TRAIN,
    "src/config.py": "WIDTH = 8\n",
    "src/pkg/net.py": "import torch\nfrom config import WIDTH\nclass Net(torch.nn.Linear):\n    pass\n",
    "launch.py": LAUNCH.format(entry="train.py", source="src"),
    "tools/aws/launch_from_below.py": LAUNCH.format(entry="train.py", source="src"),
    "tools/aws/misspelt.py": LAUNCH.format(entry="trian.py", source="src"),
    "tools/aws/no_folder.py": LAUNCH.format(entry="train.py", source="scr"),
    "notebooks/launch.ipynb": json.dumps({"cells": CELLS}),
    "src/score.py": NUMPY,
    "tests/helpers.py": NUMPY,
    "tests/test_it.py": NUMPY,
    "testing/demo.py": NUMPY,
    "quiet/score.py": NUMPY,
    "skipped/score.py": NUMPY,
    "main.tf": 'resource "aws_instance" "a" {\n  instance_type = "g5.3xlarge"\n}\n',
}
SETTINGS = """
[tool.gpuproof.check]
exclude = ["skipped/"]
sagemaker-sdk = 2
[tool.gpuproof.check.per-file-ignores]
"quiet/*" = ["PT112"]
"""
STARTS = (".", "src", "tools/aws", "..", "../..", "../../..", "../other")


def findings(project: Path, start: str, *, absolute: bool = False) -> list[tuple[str, int | None, str, str]]:
    """The findings of a check that is started in another folder, with paths relative to the project."""
    before = Path.cwd()
    os.chdir(project / start)
    try:
        path = str(project) if absolute else os.path.relpath(project)
        report = check_paths([path], CheckOptions(settings=read_settings(Path(path))))
        assert report.internal_errors == ()
        return [
            (
                os.path.relpath(hit.span.unit.path, path),
                hit.finding.location.line,
                hit.code,
                str(hit.finding.severity),
            )  # type: ignore[union-attr]
            for hit in report.hits
        ]
    finally:
        os.chdir(before)


@pytest.fixture(params=["repository", "pyproject", "neither"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project in a folder with other projects, below a folder named tests."""
    folder = tmp_path / "tests" / "team" / "project"
    write_files(folder, PROJECT)
    write_files(folder.parent / "other", {"train.py": "import nothing\n", "src/train.py": NUMPY})
    write_files(
        folder.parent, {"train.py": "print(1)\n", "launch.py": LAUNCH.format(entry="train.py", source=None)}
    )
    if request.param == "repository":
        (folder / ".git").mkdir()
    if request.param != "neither":
        write_files(folder, {"pyproject.toml": SETTINGS})
    return folder


def test_a_project_has_the_same_findings_from_every_folder(project: Path) -> None:
    expected = findings(project, ".")
    codes = {code for _, _, code, _ in expected}
    assert {"PT101", "PT112", "SM123", "IN101"} <= codes
    assert ("testing/demo.py", 4, "PT112", "error") in expected or (project / ".git").exists()
    for start in STARTS:
        assert findings(project, start) == expected, start
    assert findings(project, "..", absolute=True) == expected


def test_a_folder_above_shows_what_the_project_shows(project: Path) -> None:
    """Settings of a project apply to its files when a folder above it is checked."""
    # Without any marker of a project's root, the files in the folder above belong to the project, too: one SDK201.
    marked = project_root(str(project)) == str(project)
    expected = [
        finding
        for finding in findings(project, ".")
        if finding[0] != "pyproject.toml" and (marked or finding[2] != "SDK201")
    ]
    above = findings(project.parent, ".")
    inside = [
        (path.removeprefix("project/"), line, code, severity)
        for path, line, code, severity in above
        if path.startswith("project/") and (marked or code != "SDK201")
    ]
    assert [tuple(item) for item in inside] == expected
    assert any(path.startswith("other/") for path, *_ in above)


def test_scripts_are_linked_from_the_launchers_folder_and_those_above(project: Path) -> None:
    found = {(path, code) for path, _, code, _ in findings(project, "..")}
    assert {path for path, code in found if code == "SM123"} == {
        "tools/aws/misspelt.py",
        "tools/aws/no_folder.py",
    }
    assert ("src/train.py", "PT101") in found


def test_each_file_has_the_settings_of_its_own_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ignore = '[tool.gpuproof.check]\nignore = ["PT112"]\n'
    write_files(
        tmp_path, {"a/pyproject.toml": ignore, "a/x.py": NUMPY, "a/deep/x.py": NUMPY, "b/x.py": NUMPY}
    )
    for paths in (["a", "b"], ["b", "a"], ["."], ["a/x.py", "b/x.py"]):
        report = check_paths(paths, CheckOptions(settings=read_settings(Path(paths[0]))))
        assert [hit.span.unit.path for hit in report.hits] == ["b/x.py"], paths


def test_the_command_line_takes_precedence_in_every_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    only = '[tool.gpuproof.check]\nselect = ["E901"]\n'
    write_files(tmp_path, {"a/pyproject.toml": only, "a/x.py": NUMPY, "b/x.py": NUMPY})
    report = check_paths(["."], CheckOptions(Selection(select=("PT112",))))
    assert [hit.span.unit.path for hit in report.hits] == ["a/x.py", "b/x.py"]
    assert [hit.span.unit.path for hit in check_paths(["."]).hits] == ["b/x.py"]


def test_invalid_settings_of_one_project_lose_no_finding_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = "[tool.gpuproof.check]\nselct = []\n"
    write_files(tmp_path, {"a/pyproject.toml": wrong, "a/x.py": NUMPY, "b/x.py": NUMPY})
    report = check_paths(["."])
    assert [hit.span.unit.path for hit in report.hits] == ["a/x.py", "b/x.py"]
    (problem,) = report.problems
    assert "unknown key 'selct'" in problem.message


def test_markdown_is_checked_where_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"```python{NUMPY}```\n"
    settings = "[tool.gpuproof.check]\nmarkdown = true\n"
    write_files(tmp_path, {"a/pyproject.toml": settings, "a/x.md": text, "b/x.md": text})
    assert [hit.span.unit.path for hit in check_paths(["."]).hits] == ["a/x.md"]


def test_a_file_that_is_named_twice_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"x.py": NUMPY})
    assert len(check_paths([".", "x.py", str(tmp_path / "x.py")]).hits) == 1


def test_another_project_above_does_not_change_what_an_import_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config` of an outer script is not that of an inner project."""
    launch = 'from sagemaker.pytorch import PyTorch\nPyTorch(entry_point="train.py", instance_type="ml.g5.xlarge").fit()\n'
    inner = "from config import KIND\nimport sagemaker\nsagemaker.pytorch.PyTorch(entry_point='x.py', instance_type=KIND)\n"
    write_files(
        tmp_path,
        {
            "launch.py": launch,
            "train.py": "import config\n",
            "config.py": "KIND = 'ml.p9.xlarge'\n",
            "inner/pyproject.toml": "",
            "inner/app.py": inner,
        },
    )
    monkeypatch.chdir(tmp_path)
    above = [hit for hit in check_paths(["."]).hits if hit.span.unit.path == "inner/app.py"]
    monkeypatch.chdir(tmp_path / "inner")
    assert len(check_paths(["."]).hits) == len(above)
