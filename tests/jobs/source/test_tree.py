"""What travels with a job, and what stays at home."""

import os
import stat
from pathlib import Path

import pytest

from gpuproof.errors import UsageError
from gpuproof.jobs.source.tree import SourceTree, collect, copy_to


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(root / "train.py", "print('hello')")
    write(root / "lib" / "model.py", "layers = 3")
    return root


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(tree: SourceTree) -> set[str]:
    return {file.relative for file in tree.files}


def test_a_folder_travels_with_its_files_and_their_size(project: Path) -> None:
    tree = collect(project, "train.py")
    assert [(file.relative, file.size) for file in tree.files] == [("lib/model.py", 10), ("train.py", 14)]
    assert (tree.root, tree.total_bytes, tree.notes) == (project, 24, ())


@pytest.mark.parametrize(
    "name",
    [
        ".git/HEAD",
        "lib/.git",
        ".hg/store",
        ".svn/entries",
        "lib/__pycache__/model.cpython-311.pyc",
        "lib/old.pyc",
        "node_modules/x/index.js",
        ".mypy_cache/x",
        ".pytest_cache/x",
        ".ruff_cache/x",
        ".ipynb_checkpoints/x.ipynb",
        ".DS_Store",
        "lib/.DS_Store",
        "project.egg-info/PKG-INFO",
    ],
)
def test_what_tools_make_by_themselves_stays_at_home(name: str, project: Path) -> None:
    write(project / name)
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


@pytest.mark.parametrize("name", [".venv", "venv", "my-environment", "lib/env"])
def test_a_virtual_environment_stays_at_home_whatever_its_name(name: str, project: Path) -> None:
    write(project / name / "pyvenv.cfg")
    write(project / name / "lib" / "site.py")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


def test_a_folder_called_venv_that_is_none_travels(project: Path) -> None:
    write(project / "venv" / "notes.txt")
    assert "venv/notes.txt" in names(collect(project, "train.py"))


def test_a_conda_environment_stays_at_home(project: Path) -> None:
    write(project / "env" / "conda-meta" / "history")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


def test_results_of_an_earlier_run_that_were_pulled_here_stay_at_home(project: Path) -> None:
    write(project / "train-20261121-160628-fa88" / "algo-1.log")
    write(project / "train-20261121-160628-fa88" / "model.tar.gz")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


def test_a_folder_with_such_a_name_and_none_of_that_in_it_goes_along(project: Path) -> None:
    write(project / "data-20261121-160628-fa88" / "a.csv")
    assert "data-20261121-160628-fa88/a.csv" in names(collect(project, "train.py"))


def test_gpuproofignore_lists_more_that_stays_at_home(project: Path) -> None:
    for name in ("data/images/1.png", "notes.log", "keep.log", "lib/deep/data/x", "out/y"):
        write(project / name)
    write(project / ".gpuproofignore", "# comment\n\ndata/\n*.log\n!keep.log\n/out\n")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py", "keep.log", ".gpuproofignore"}


def test_gpuproofignore_brings_along_what_would_stay_by_itself(project: Path) -> None:
    write(project / "node_modules" / "x.js")
    write(project / ".gpuproofignore", "!node_modules/\n")
    assert "node_modules/x.js" in names(collect(project, "train.py"))


def test_the_entry_point_travels_even_when_it_is_ignored(project: Path) -> None:
    write(project / ".gpuproofignore", "*.py\n")
    assert "train.py" in names(collect(project, "./train.py"))


def test_inputs_inside_the_tree_stay_at_home(project: Path) -> None:
    write(project / "data" / "1.csv")
    write(project / "labels.csv")
    (project / "alias").symlink_to("data")
    tree = collect(project, "train.py", exclude=[project / "data", project / "lib" / ".." / "labels.csv"])
    assert names(tree) == {"train.py", "lib/model.py"}


def test_an_input_that_is_the_source_folder_itself_hides_nothing(project: Path) -> None:
    assert names(collect(project, "train.py", exclude=[project])) == {"train.py", "lib/model.py"}


def test_too_many_files_name_the_largest_folders_and_what_to_type(project: Path) -> None:
    for number in range(30):
        write(project / "data" / f"{number}.png")
        write(project / "extra" / f"{number % 3}.png")
    with pytest.raises(UsageError) as refusal:
        collect(project, "train.py", limit_files=10)
    assert "holds more than 10 files" in refusal.value.message
    assert "'data/' (11 files" in refusal.value.message
    assert refusal.value.remedy is not None
    assert ".gpuproofignore" in refusal.value.remedy
    assert "source_dir" in refusal.value.remedy


def test_too_many_bytes_name_the_largest_folders(project: Path) -> None:
    write(project / "data" / "big", "x" * 3_000_000)
    with pytest.raises(UsageError, match=r"more than 1.0 MiB.*'data/' \(1 files, 2.9 MiB\)"):
        collect(project, "train.py", limit_bytes=2**20)


def test_a_large_file_of_the_folder_itself_is_named(project: Path) -> None:
    write(project / "weights.h5", "x" * 3_000_000)
    with pytest.raises(UsageError, match=r"'weights\.h5'"):
        collect(project, "train.py", limit_bytes=2**20)


def test_a_large_tree_is_named_with_its_largest_folders(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuproof.jobs.source.tree.LARGE_FILES", 10)
    for number in range(11):
        write(project / "data" / f"{number}.png")
    (note,) = collect(project, "train.py").notes
    assert note.startswith("13 files, 35 B are sent with the job: pass data as an input")
    assert "the largest: 'data/' (11 files, 11 B)" in note


def test_a_limit_ends_the_walk_early(project: Path) -> None:
    for number in range(20):
        write(project / "data" / f"{number}.png")
    # Were it read, the walk would fail with another error.
    (project / "zzz").symlink_to("/proc/self/mem")
    with pytest.raises(UsageError, match="holds more than 5 files"):
        collect(project, "train.py", limit_files=5)


@pytest.mark.parametrize("place", ["home", "temp"])
def test_from_a_home_or_temporary_folder_only_the_entry_point_travels(
    place: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "home":
        monkeypatch.setenv("HOME", str(project))
    else:
        monkeypatch.setattr("tempfile.tempdir", str(project))
    tree = collect(project, "train.py")
    assert names(tree) == {"train.py"}
    (note,) = tree.notes
    assert "only train.py is sent" in note


def test_the_root_folder_never_travels(project: Path) -> None:
    tree = collect(Path("/"), str(project / "train.py").lstrip("/"))
    assert len(tree.files) == 1


def test_a_missing_entry_point_suggests_the_nearest_name(project: Path) -> None:
    with pytest.raises(UsageError, match=r"trian\.py is not there.*did you mean 'train\.py'\?"):
        collect(project, "trian.py")


def test_a_missing_entry_point_is_found_in_another_folder(project: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'lib/model\.py'\?"):
        collect(project, "model.py")


def test_an_entry_point_that_is_a_folder_is_an_error(project: Path) -> None:
    with pytest.raises(UsageError, match="lib is a folder, not a script"):
        collect(project, "lib")


def test_a_missing_source_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The source folder .* does not exist"):
        collect(tmp_path / "none", "train.py")


@pytest.mark.parametrize(
    "name",
    [
        "with space.py",
        'it\'s "quoted".py',
        "line\nbreak.py",
        "模型-é-🚀.py",
        os.fsdecode(b"latin-\xe9.py"),
        "-p.py",
    ],
    ids=["space", "quotes", "newline", "unicode", "undecodable", "dash"],
)
def test_weird_names_survive(name: str, project: Path, tmp_path: Path) -> None:
    write(project / name / name, "weird")
    write(project / ".gpuproofignore", "*.log\n")
    copy_to(collect(project, "train.py"), tmp_path / "out")
    assert (tmp_path / "out" / name / name).read_text() == "weird"


def test_a_copy_has_the_same_content_and_permissions(project: Path, tmp_path: Path) -> None:
    write(project / "run.sh").chmod(0o755)
    write(project / "private").chmod(0o400)
    copy_to(collect(project, "train.py"), tmp_path / "out")
    assert (tmp_path / "out" / "lib" / "model.py").read_text() == "layers = 3"
    assert stat.S_IMODE((tmp_path / "out" / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out" / "private").stat().st_mode) == 0o600


def test_changing_the_copy_leaves_the_original_alone(project: Path, tmp_path: Path) -> None:
    copy_to(collect(project, "train.py"), tmp_path / "out")
    (tmp_path / "out" / "train.py").write_text("changed")
    assert (project / "train.py").read_text() == "print('hello')"


def test_an_empty_folder_travels(project: Path, tmp_path: Path) -> None:
    (project / "logs" / "today").mkdir(parents=True)
    copy_to(collect(project, "train.py"), tmp_path / "out")
    assert (tmp_path / "out" / "logs" / "today").is_dir()


def test_a_link_inside_stays_a_link(project: Path, tmp_path: Path) -> None:
    (project / "current").symlink_to("lib")
    (project / "lib" / "main.py").symlink_to(project / "train.py")
    copy_to(collect(project, "train.py"), tmp_path / "out")
    assert str((tmp_path / "out" / "current").readlink()) == "lib"
    assert str((tmp_path / "out" / "lib" / "main.py").readlink()) == "../train.py"


def test_a_link_that_leads_out_is_followed(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared" / "util.py", "shared")
    (tmp_path / "shared" / "alias.py").symlink_to("util.py")
    (project / "shared").symlink_to(tmp_path / "shared")
    (project / "one.py").symlink_to("../shared/util.py")
    copy_to(collect(project, "train.py"), tmp_path / "out")
    for name in ("one.py", "shared/util.py", "shared/alias.py"):
        assert (tmp_path / "out" / name).read_text() == "shared"
        assert not (tmp_path / "out" / name).is_symlink()


def test_an_entry_point_that_is_a_link_out_travels_as_a_file(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere.py", "linked")
    (project / "entry.py").symlink_to("../elsewhere.py")
    copy_to(collect(project, "entry.py"), tmp_path / "out")
    assert (tmp_path / "out" / "entry.py").read_text() == "linked"


def test_a_link_to_a_folder_around_the_source_folder_brings_nothing_along(project: Path) -> None:
    write(project.parent / "private" / "notes.txt")
    (project / "up").symlink_to("..")
    (project / "lib" / "top").symlink_to("/")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


def test_dead_links_circles_and_pipes_stay_at_home(project: Path) -> None:
    (project / "dead").symlink_to("nowhere")
    (project / "ring").symlink_to("ring")
    (project / "up").symlink_to("..")
    os.mkfifo(project / "pipe")
    assert names(collect(project, "train.py")) == {"train.py", "lib/model.py"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_named(project: Path) -> None:
    write(project / "secret").chmod(0)
    with pytest.raises(UsageError, match="secret' cannot be sent with the job: permission denied"):
        collect(project, "train.py")
