"""Which files a path means."""

from pathlib import Path

import pytest

from gpuproof.errors import UsageError
from gpuproof.linter.source.discovery import find_files
from support.check_helpers import write_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_source_and_descriptions_are_found_and_the_rest_is_not(here: Path) -> None:
    names = ("a.py", "b.ipynb", "c.tf", "d.yaml", "requirements-dev.txt", "notes.txt", "e.md", "f.pyc")
    write_files(here, dict.fromkeys(names, ""))
    assert find_files(["."]).files == ("a.py", "b.ipynb", "c.tf", "d.yaml", "requirements-dev.txt")
    assert "e.md" in find_files(["."], markdown=True).files


def test_installed_packages_and_environments_are_not_searched(here: Path) -> None:
    write_files(
        here, {"node_modules/a.py": "", ".venv/b.py": "", "env/pyvenv.cfg": "", "env/c.py": "", "d.py": ""}
    )
    assert find_files(["."]).files == ("d.py",)


def test_gitignore_is_kept_at_every_level(here: Path) -> None:
    write_files(
        here,
        {
            ".gitignore": "out/\n*.gen.py\n",
            "out/a.py": "",
            "x.gen.py": "",
            "sub/.gitignore": "secret.py\n!keep.gen.py\n",
            "sub/secret.py": "",
            "sub/keep.gen.py": "",
            "sub/b.py": "",
        },
    )
    assert find_files(["."]).files == ("sub/b.py", "sub/keep.gen.py")


def test_gitignore_above_the_folder_counts_within_its_repository(here: Path) -> None:
    write_files(here, {".git/HEAD": "", ".gitignore": "*.gen.py\n", "sub/a.gen.py": "", "sub/b.py": ""})
    assert find_files(["sub"]).files == ("sub/b.py",)


def test_an_ignored_file_named_explicitly_is_checked(here: Path) -> None:
    write_files(here, {".git/HEAD": "", ".gitignore": "out/\n", "out/a.py": ""})
    assert find_files(["out"]).files == ("out/a.py",)
    assert find_files(["out/a.py"]).files == ("out/a.py",)


def test_settings_leave_out_what_gitignore_brings_back(here: Path) -> None:
    write_files(here, {".gitignore": "!gen/\n", "gen/a.py": "", "b.py": ""})
    assert find_files(["."], exclude=("gen/",), root=here).files == ("b.py",)


def test_a_path_that_is_not_there_is_wrong_usage(here: Path) -> None:
    (here / "train.py").write_text("")
    with pytest.raises(UsageError, match=r"train\.py"):
        find_files(["trian.py"])


def test_a_file_named_twice_is_read_once(here: Path) -> None:
    (here / "a.py").write_text("")
    assert find_files(["a.py", ".", "./a.py"]).files == ("a.py",)


def test_files_with_commands_and_cdk_programs_are_found(here: Path) -> None:
    names = ("Dockerfile", "train.dockerfile", "Makefile", "job.sbatch", "run.sh", "compose.gpu.yaml")
    write_files(here, {**dict.fromkeys(names, ""), "stack.ts": "import * as cdk from 'aws-cdk-lib';"})
    write_files(
        here, {"web.ts": "export {}", "types.d.ts": "import 'aws-cdk-lib'", "dockerfile_parser.py": ""}
    )
    assert set(find_files(["."]).files) == {*names, "stack.ts", "dockerfile_parser.py"}
