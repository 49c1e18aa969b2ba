"""Digests of source trees and inputs."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuproof.jobs.source import digests
from gpuproof.jobs.source.digests import FilesDigest, folder_digest, tree_digest
from gpuproof.jobs.source.tree import collect


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "models").mkdir(parents=True)
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "models" / "net.py").write_text("x = 1\n")
    (folder / "models" / "a name with spaces.txt").write_text("y\n")
    return folder


def digest(source: Path) -> FilesDigest:
    return tree_digest(collect(source, "train.py"))


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is a program of GNU coreutils")
def test_sha256sum_prints_the_text_that_is_hashed(source: Path):
    command = "find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum"
    printed = subprocess.run(command, cwd=source, shell=True, capture_output=True, text=True, check=True)
    assert printed.stdout.split()[0] == digest(source).sha256


def test_it_counts_files_and_bytes(source: Path):
    assert (digest(source).files, digest(source).bytes) == (3, 15 + 6 + 2)


def test_the_same_files_elsewhere_have_the_same_digest(source: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(source, copy)
    assert digest(copy) == digest(source)


def test_each_change_of_a_file_changes_it(source: Path):
    before = digest(source).sha256
    (source / "models" / "net.py").write_text("x = 2\n")
    changed = digest(source).sha256
    (source / "models" / "net.py").rename(source / "models" / "other.py")
    renamed = digest(source).sha256
    assert len({before, changed, renamed}) == 3


def test_a_link_counts_as_what_it_points_to(source: Path):
    (source / "link.py").symlink_to("train.py")
    before = digest(source).sha256
    (source / "link.py").unlink()
    (source / "link.py").symlink_to("models/net.py")
    assert digest(source).sha256 != before


def test_an_input_folder_and_a_single_file_are_hashed(source: Path):
    whole = folder_digest(source)
    assert (whole.sha256, whole.files) == (digest(source).sha256, 3)
    content = hashlib.sha256(b"x = 1\n").hexdigest()
    line = f"{content}  net.py\n"
    assert folder_digest(source / "models" / "net.py").sha256 == hashlib.sha256(line.encode()).hexdigest()


def test_a_large_input_is_counted_and_not_read(source: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digests, "_MOST_BYTES", 10)
    assert folder_digest(source) == FilesDigest(None, 3, 23)


def test_an_input_of_very_many_files_is_not_even_counted(source: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digests, "_MOST_FILES", 2)
    assert folder_digest(source) == FilesDigest(None, None, None)
