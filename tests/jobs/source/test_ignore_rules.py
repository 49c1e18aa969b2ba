"""`.gitignore` as git reads it, `.gpuproofignore` before it, and `include` before both."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from gpuproof.errors import UsageError
from gpuproof.jobs.source.ignore_rules import _Patterns
from gpuproof.jobs.source.tree import SourceTree, collect


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("train.py", "lib/model.py", "data/a.csv", "data/deep/b.csv", ".env", "out.log"):
        write(root / name)
    return root


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(tree: SourceTree) -> set[str]:
    return {file.relative for file in tree.files} - {".gitignore", ".gpuproofignore"}


def test_what_gitignore_lists_is_not_sent_and_is_named(project: Path) -> None:
    write(project / ".gitignore", "# data\n/data/\n.env\n*.log\n")
    tree = collect(project, "train.py")
    assert names(tree) == {"train.py", "lib/model.py"}
    assert tree.git_ignored == (".env", "data/", "out.log")
    assert "without what .gitignore lists: .env, data/, out.log (--include sends it)" in tree.describe()


def test_gitignore_can_be_disregarded(project: Path) -> None:
    write(project / ".gitignore", "*\n")
    assert "data/a.csv" in names(collect(project, "train.py", respect_gitignore=False))


def test_the_gitignore_files_of_the_repository_above_hold_too(project: Path) -> None:
    (project.parent / ".git" / "info").mkdir(parents=True)
    write(project.parent / ".git" / "info" / "exclude", "*.log\n")
    write(project.parent / ".gitignore", "/project/data\n")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py", ".env"}


def test_a_gitignore_above_without_a_repository_does_not(project: Path) -> None:
    write(project.parent / ".gitignore", "data\n")
    assert "data/a.csv" in names(collect(project, "train.py"))


def test_a_source_folder_that_the_repository_ignores_is_sent(project: Path) -> None:
    (project.parent / ".git").mkdir()
    write(project.parent / ".gitignore", "project/\n*.log\n")
    assert names(collect(project, "train.py")) >= {"train.py", "lib/model.py"}


def test_a_nearer_gitignore_takes_precedence(project: Path) -> None:
    write(project / ".gitignore", "*.csv\n")
    write(project / "data" / ".gitignore", "!a.csv\n")
    sent = names(collect(project, "train.py"))
    assert "data/a.csv" in sent
    assert "data/deep/b.csv" not in sent


def test_gpuproofignore_takes_precedence_over_gitignore(project: Path) -> None:
    write(project / ".gitignore", "data\n*.log\n")
    write(project / ".gpuproofignore", "!data\n")
    assert names(collect(project, "train.py")) == {
        *("train.py", "lib/model.py", ".env", "data/a.csv", "data/deep/b.csv")
    }


@pytest.mark.parametrize(
    ("include", "sent"),
    [
        (["data"], {"data/a.csv", "data/deep/b.csv"}),
        (["./data/a.csv"], {"data/a.csv"}),
        (["data/*.csv"], {"data/a.csv"}),
        (["data/**/*.csv"], {"data/a.csv", "data/deep/b.csv"}),
        (["**/*.csv"], set()),
        (["data/deep/b.csv", ".env"], {"data/deep/b.csv", ".env"}),
        (["*.log"], {"out.log"}),
    ],
)
def test_include_sends_what_is_ignored(include: list[str], sent: set[str], project: Path) -> None:
    write(project / ".gitignore", "data\n.env\n*.log\n")
    assert names(collect(project, "train.py", include=include)) == {"train.py", "lib/model.py", *sent}


def test_an_absolute_pattern_below_the_source_folder_is_accepted(project: Path) -> None:
    write(project / ".gitignore", ".env\n")
    assert ".env" in names(collect(project, "train.py", include=[str(project / ".env")]))


def test_a_pattern_that_matches_nothing_is_named(project: Path) -> None:
    (note,) = collect(project, "train.py", include=["dta/*.csv"]).notes
    assert note == f"include: 'dta/*.csv' matches no file in {project}"


def test_an_invalid_pattern_names_its_file(project: Path) -> None:
    write(project / ".gitignore", "!\n")
    with pytest.raises(UsageError, match=r"\.gitignore has an invalid pattern"):
        collect(project, "train.py")


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize(
    "patterns",
    [
        "*.py[cod]\nfoo/**\n**/deep\n!data/deep/b.csv",
        "/data/*\n!/data/deep",
        "data/deep/\n*.[^l]og",
        "lib/*\n!lib/model.py\n\\!x\n",
        "d*/**/b.csv\n.env*",
    ],
)
def test_the_same_files_as_with_git(patterns: str, project: Path) -> None:
    write(project / ".gitignore", patterns)
    subprocess.run(
        ["git", "init", "-q", str(project)], check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(project)}
    )
    listed = subprocess.run(
        ["git", "-C", str(project), "ls-files", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(project), "XDG_CONFIG_HOME": str(project)},
    ).stdout.split()
    assert names(collect(project, "train.py")) == set(listed) - {".gitignore"} | {"train.py"}


NAMES = st.sampled_from(["a", "b", "data", "a.py", "b.pyc", ".env", "ab"])
PIECES = st.sampled_from(
    ["a", "b", "data", "*.py", "*.py[co]", ".env*", "?b", "*", "a*", "**", "[!a]", "\\\\a", "[^b]"]
)


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(
        st.builds(
            lambda negated, lead, pieces, end: f"{negated}{lead}{'/'.join(pieces)}{end}",
            st.sampled_from(["", "", "", "!"]),
            st.sampled_from(["", "", "/"]),
            st.lists(PIECES, min_size=1, max_size=3),
            st.sampled_from(["", "", "/", " "]),
        ),
        min_size=1,
        max_size=5,
    ),
    parts=st.lists(NAMES, min_size=1, max_size=3),
    end=st.sampled_from(["", "/"]),
)
def test_simple_patterns_are_decided_as_by_pathspec(lines: list[str], parts: list[str], end: str) -> None:
    path = "/".join(parts) + end
    patterns = _Patterns.of(Path("/r/.gitignore"), "/r", lines)
    assert patterns.match(f"/r/{path}") == GitIgnoreSpec.from_lines(lines).check_file(path).include


def test_pathspec_is_not_imported_unless_a_pattern_may_match(project: Path) -> None:
    write(project / ".gitignore", "build/\n*.egg\n.venv*\n*.py[cod]\n/data/\n.env\n")
    program = (
        "import sys; from pathlib import Path; from gpuproof.jobs.source.tree import collect; "
        f"collect(Path({str(project)!r}), 'train.py'); print('pathspec' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
