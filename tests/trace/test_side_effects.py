"""What a traced script may do with files: it sees its own changes, and nothing is changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, shutil, sqlite3, sys
from pathlib import Path
from gpuproof.trace.notes import Notes
from gpuproof.trace.side_effects import Scratch

notes = Notes()
scratch = Scratch(Path(sys.argv[1]).resolve(), notes)
scratch.install()
{body}
for note in notes.list():
    print(note.message.replace(os.getcwd() + os.sep, ""))
"""


def after(tmp_path: Path, body: str) -> tuple[list[str], dict[str, str]]:
    """The notes about a program, and what the folder that it ran in has afterwards."""
    folder, scratch = tmp_path / "project", tmp_path / "scratch"
    for target in (folder / "out", scratch):
        target.mkdir(parents=True)
    (folder / "out" / "old.txt").write_text("old")
    (folder / "kept.txt").write_text("kept")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body), str(scratch)],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }
    return done.stdout.splitlines(), found


BEFORE = {"out": "folder", "out/old.txt": "old", "kept.txt": "kept"}


@pytest.mark.parametrize(
    ("body", "notes"),
    [
        ("shutil.rmtree('out')\nos.makedirs('out')", ["shutil.rmtree(out)", "os.mkdir(out)"]),
        ("shutil.rmtree('none', ignore_errors=True)", []),
        ("os.makedirs('a/b')\nos.makedirs('a/b', exist_ok=True)\nshutil.rmtree('a')", ["os.mkdir(a)", "os.mkdir(a/b)"]),
        ("Path('new.txt').touch()\nPath('new.txt').touch()\nassert Path('new.txt').open().read() == ''", ["writing new.txt"]),
        ("Path('kept.txt').touch()", ["os.utime(kept.txt)"]),
        (
            ("file = os.open('kept.txt', os.O_RDWR | os.O_APPEND)\nos.write(file, b'!')\nos.close(file)\n"
            "assert Path('kept.txt').read_text() == 'kept!'"),
            ["writing kept.txt"],
        ),
        ("os.truncate('kept.txt', 0)\nos.chmod('kept.txt', 0o600)", ["os.truncate(kept.txt)", "os.chmod(kept.txt)"]),
        ("os.symlink('kept.txt', 'link')\nos.link('kept.txt', 'second')", ["os.symlink(link)", "os.link(second)"]),
        ("Path('kept.txt').unlink()\nPath('out/old.txt').rename('moved.txt')", ["os.unlink(kept.txt)", "os.rename(moved.txt)"]),
        ("Path('a.txt').write_text('a')\nPath('a.txt').replace('kept.txt')\nassert Path('kept.txt').read_text() == 'a'", ["writing a.txt"]),
        ("shutil.copy('kept.txt', 'copy.txt')\nassert open('copy.txt').read() == 'kept'", ["writing copy.txt"]),
        (
            ("for _ in range(2):\n    with sqlite3.connect('runs.db') as runs:\n        runs.execute('create table if not exists t (a)')\n"
            "        runs.execute('insert into t values (1)')\nassert len(runs.execute('select * from t').fetchall()) == 2"),
            ["The database runs.db was not changed."],
        ),
        ("folder = os.open('out', os.O_RDONLY)\nos.unlink('old.txt', dir_fd=folder)", ["os.unlink(out/old.txt)"]),
    ],
)  # fmt: skip
def test_a_change_is_listed_and_not_made(tmp_path: Path, body: str, notes: list[str]) -> None:
    assert after(tmp_path, body) == (notes, BEFORE)


@pytest.mark.parametrize(
    "body",
    [
        "os.remove('none.txt')",
        "os.mkdir('out')",
        "os.utime('none.txt')",
        "shutil.rmtree('none')",
        "os.open('none.txt', os.O_WRONLY)",
        "os.open('kept.txt', os.O_CREAT | os.O_EXCL | os.O_WRONLY)",
    ],
)
def test_what_would_fail_without_a_trace_fails(tmp_path: Path, body: str) -> None:
    body = f"try:\n    {body}\nexcept (FileNotFoundError, FileExistsError) as error:\n    print(type(error).__name__)\n"
    ((name,), found) = after(tmp_path, body)
    assert (name, found) == (
        "FileExistsError" if "mkdir" in body or "EXCL" in body else "FileNotFoundError",
        BEFORE,
    )


@pytest.mark.parametrize(
    "body",
    [
        "os.makedirs('new/deep')\nassert os.path.isdir('new/deep') and Path('new').exists() and os.listdir('new') == ['deep']",
        "Path('out/new.txt').write_text('abc')\nassert os.path.getsize('out/new.txt') == 3 and sorted(os.listdir('out')) == ['new.txt', 'old.txt']",
        "Path('a.txt').write_text('a')\nassert os.access('a.txt', os.R_OK) and Path('a.txt').stat().st_size == 1",
        "os.remove('kept.txt')\nassert not os.path.exists('kept.txt') and 'kept.txt' not in os.listdir() and not os.access('kept.txt', os.R_OK)",
        "shutil.rmtree('out')\nassert not Path('out').exists() and not Path('out/old.txt').exists() and list(Path('out').glob('*')) == []",
        "shutil.rmtree('out')\nos.makedirs('out')\nassert os.path.isdir('out') and os.listdir('out') == []",
        "os.makedirs('runs/1')\nPath('runs/1/last.pt').touch()\nassert [(a, b, c) for a, b, c in os.walk('runs')] == [('runs', ['1'], []), ('runs/1', [], ['last.pt'])]",
        "import glob\nPath('out/a.pt').touch()\nassert glob.glob('out/*.pt') == ['out/a.pt']",
        "Path('a.txt').write_text('a')\nos.replace('a.txt', 'b.txt')\nassert not os.path.exists('a.txt') and Path('b.txt').exists()",
        "Path('new.txt').write_text('x')\nos.remove('new.txt')\nassert not os.path.exists('new.txt')",
        (
            "import tempfile\nnumber, name = tempfile.mkstemp()\nos.write(number, b'x')\nos.close(number)\nshutil.move(name, 'new.txt')\n"
            "os.chmod('new.txt', 0o644)\nassert Path('new.txt').read_text() == 'x' and not os.path.exists(name)"
        ),
    ],
)
def test_the_script_sees_its_own_changes(tmp_path: Path, body: str) -> None:
    _, found = after(tmp_path, body)
    assert found == BEFORE


@pytest.mark.parametrize(
    "read", ["open('kept.txt')", "os.open('kept.txt', os.O_RDONLY)", "os.stat('kept.txt')"]
)
def test_a_removed_file_cannot_be_read(tmp_path: Path, read: str) -> None:
    body = f"os.remove('kept.txt')\ntry:\n    {read}\nexcept FileNotFoundError:\n    print('none')\n"
    notes, found = after(tmp_path, body)
    assert (notes[0], found) == ("none", BEFORE)


def test_temporary_files_are_files_as_always(tmp_path: Path) -> None:
    body = (
        "import tempfile\nwith tempfile.TemporaryDirectory() as name:\n    Path(name, 'a').write_text('a')\n"
        "    os.mkdir(Path(name, 'b'))\n    assert sorted(os.listdir(name)) == ['a', 'b']\n    place = name\n"
        "assert not os.path.exists(place)"
    )
    assert after(tmp_path, body) == ([], BEFORE)


def test_a_view_of_a_folder_shows_what_the_script_has_made_moved_and_removed(tmp_path: Path) -> None:
    body = (
        "assert scratch.view_of('out') == 'out'\n"
        "os.makedirs('new/inner')\nshutil.move('kept.txt', 'new/inner/kept.txt')\n"
        "shutil.copytree('out', 'new/copied')\nPath('new/empty').mkdir()\nPath('out/old.txt').unlink()\n"
        "assert open('new/inner/kept.txt').read() == 'kept'\n"
        "for name in ('new', 'out', '.'):\n"
        "    view = Path(scratch.view_of(name))\n"
        "    files = {str(path.relative_to(view)): path.read_text() for path in view.rglob('*') if path.is_file()}\n"
        "    print(name, sorted(files.items()))\n"
        "print(sorted(path.name for path in Path(scratch.view_of('new')).iterdir()))\n"
    )
    printed, found = after(tmp_path, body)
    new = "('copied/old.txt', 'old'), ('inner/kept.txt', 'kept')"
    assert printed[:4] == [
        f"new [{new}]",
        "out []",
        ". [('new/copied/old.txt', 'old'), ('new/inner/kept.txt', 'kept')]",
        "['copied', 'empty', 'inner']",
    ]
    assert found == BEFORE


def test_a_moved_file_that_is_written_is_a_copy(tmp_path: Path) -> None:
    body = (
        "os.rename('kept.txt', 'between.txt')\nos.rename('between.txt', 'moved.txt')\n"
        "assert not os.path.exists('kept.txt') and os.listdir('.').count('moved.txt') == 1\n"
        "with open('moved.txt', 'a') as file:\n    file.write('!')\n"
        "assert open('moved.txt').read() == 'kept!'"
    )
    assert after(tmp_path, body)[1] == BEFORE


def test_a_folder_needs_its_parent(tmp_path: Path) -> None:
    body = (
        "try:\n    os.mkdir('new/inner')\nexcept FileNotFoundError:\n    print('no parent')\n"
        "Path('other/inner').mkdir(parents=True)\nassert os.listdir('other') == ['inner']\n"
        "os.makedirs('third/inner')\nassert os.path.isdir('third')"
    )
    printed, found = after(tmp_path, body)
    assert printed[0] == "no parent"
    assert found == BEFORE
