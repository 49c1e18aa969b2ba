"""Packing: reproducible, atomic, and with exactly the content of the folder."""

import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gpuproof.agent.artifacts import archive_create
from gpuproof.agent.artifacts.archive_create import ArtifactError, pack
from gpuproof.agent.artifacts.archive_extract import unpack


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "1" / "variables").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").write_bytes(b"graph")
    (folder / "1" / "variables" / "variables.data-00000-of-00001").write_bytes(os.urandom(70_000))
    (folder / "model.keras").write_bytes(b"weights" * 1000)
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "artifacts" / "model.tar.gz"


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def content(folder: Path) -> dict[str, bytes | str | None]:
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def test_what_is_packed_comes_back_the_same(model: Path, archive: Path, tmp_path: Path) -> None:
    pack(model, archive)
    unpack(archive, tmp_path / "back")
    assert content(tmp_path / "back") == content(model)


def test_the_result_counts_files_and_bytes_and_knows_the_digest(model: Path, archive: Path) -> None:
    result = pack(model, archive)
    assert (result.files, result.bytes) == (3, 5 + 70_000 + 7_000)
    assert result.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert result.notes == ()


def test_the_same_content_makes_the_same_bytes_whatever_its_times_and_permissions(
    model: Path, archive: Path, tmp_path: Path
) -> None:
    first = pack(model, archive)
    for path in [model, *model.rglob("*")]:
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert pack(model, tmp_path / "again.tar.gz").sha256 == first.sha256


def test_the_archive_names_no_user_no_time_and_no_file(model: Path, archive: Path) -> None:
    pack(model, archive)
    with tarfile.open(archive) as tar:
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in tar} == {(0, 0, "", "", 0)}
    # RFC 1952: byte 3 holds the flags (8: a file name follows), bytes 4 to 7 the time.
    assert archive.read_bytes()[3:8] == bytes(5)


def test_names_are_sorted_by_their_bytes(tmp_path: Path, archive: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("b", "B", "a", "é", "z"):
        (folder / name).touch()
    pack(folder, archive)
    assert names(archive) == ["B", "a", "b", "z", "é"]


def test_permissions_keep_only_who_may_execute(tmp_path: Path, archive: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, mode in {"secret": 0o600, "tool": 0o4711}.items():
        (folder / name).touch()
        (folder / name).chmod(mode)
    pack(folder, archive)
    with tarfile.open(archive) as tar:
        assert {member.name: oct(member.mode) for member in tar} == {"secret": "0o644", "tool": "0o755"}


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        'it\'s "quoted"',
        "line\nbreak",
        "smörgåsbord-模型-🚀",
        os.fsdecode(b"latin-\xe9"),
        "x" * 250,
    ],
    ids=["space", "quotes", "newline", "unicode", "undecodable", "long"],
)
def test_weird_names_survive(name: str, tmp_path: Path, archive: Path) -> None:
    folder = tmp_path / "model"
    (folder / name).mkdir(parents=True)
    (folder / name / name).write_bytes(b"content")
    assert pack(folder, archive).notes == ()
    unpack(archive, tmp_path / "back")
    assert content(tmp_path / "back") == content(folder)


def test_gnu_tar_reads_what_was_packed(model: Path, archive: Path) -> None:
    (model / ("x" * 200)).write_text("long name")
    pack(model, archive)
    listed = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True)
    assert sorted(line.rstrip("/") for line in listed.stdout.splitlines()) == sorted(names(archive))


def test_a_link_to_something_inside_stays_a_link(model: Path, archive: Path, tmp_path: Path) -> None:
    (model / "latest").symlink_to("1")
    (model / "1" / "best").symlink_to("../model.keras")
    pack(model, archive)
    unpack(archive, tmp_path / "back")
    assert str((tmp_path / "back" / "latest").readlink()) == "1"
    assert str((tmp_path / "back" / "1" / "best").readlink()) == "../model.keras"


def test_an_absolute_link_to_something_inside_becomes_a_relative_one(
    model: Path, archive: Path, tmp_path: Path
) -> None:
    (model / "latest").symlink_to(model / "1")
    pack(model, archive)
    unpack(archive, tmp_path / "back")
    assert str((tmp_path / "back" / "latest").readlink()) == "1"


def test_of_a_link_that_leads_out_the_content_is_packed(model: Path, archive: Path, tmp_path: Path) -> None:
    outside = tmp_path / "cache"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "weights").write_bytes(b"w")
    (outside / "alias").symlink_to("deep/weights")
    (model / "folder").symlink_to(outside)
    (model / "file").symlink_to(outside / "alias")
    assert pack(model, archive).notes == ()
    unpack(archive, tmp_path / "back")
    back = content(tmp_path / "back")
    assert (back["file"], back["folder/deep/weights"], back["folder/alias"]) == (b"w", b"w", b"w")


def test_links_made_by_the_paths_of_the_scripts_own_world_are_understood(
    tmp_path: Path, archive: Path
) -> None:
    ml, checkpoints = tmp_path / "ml", tmp_path / "checkpoints"
    (ml / "model" / "1").mkdir(parents=True)
    (ml / "model" / "1" / "w").write_bytes(b"inside")
    checkpoints.mkdir()
    (checkpoints / "best.pt").write_bytes(b"outside")
    (ml / "model" / "current").symlink_to("/opt/ml/model/1")
    (ml / "model" / "through").symlink_to("current/w")
    (ml / "model" / "absolute").symlink_to("/opt/ml/checkpoints/best.pt")
    (ml / "model" / "relative").symlink_to("../checkpoints/best.pt")
    result = pack(ml / "model", archive, seen_as={"/opt/ml": ml, "/opt/ml/checkpoints": checkpoints})
    assert result.notes == ()
    unpack(archive, tmp_path / "back")
    back = tmp_path / "back"
    assert str((back / "current").readlink()) == "1"
    assert (back / "through").read_bytes() == b"inside"
    assert (back / "absolute").read_bytes() == (back / "relative").read_bytes() == b"outside"


def test_a_link_to_a_folder_around_the_model_brings_nothing_along(tmp_path: Path, archive: Path) -> None:
    ml = tmp_path / "ml"
    (ml / "code").mkdir(parents=True)
    (ml / "code" / "train.py").write_text("secret = 1")
    (ml / "model" / "deep").mkdir(parents=True)
    (ml / "model" / "w").write_text("w")
    (ml / "model" / "up").symlink_to("..")
    (ml / "model" / "deep" / "seen").symlink_to("/opt/ml")
    (ml / "model" / "deep" / "top").symlink_to("/")
    packed = pack(ml / "model", archive, seen_as={"/opt/ml": ml})
    assert names(archive) == ["deep", "w"]
    assert [note.partition(" was left out: ")[0] for note in packed.notes] == ["deep/seen", "deep/top", "up"]
    assert "it is a link to a folder that contains it" in packed.notes[0]


def test_dead_links_circles_pipes_and_sockets_are_left_out_with_a_note(model: Path, archive: Path) -> None:
    (model / "dead").symlink_to("nowhere")
    (model / "ring").symlink_to("ring")
    os.mkfifo(model / "pipe")
    (model / "around").symlink_to(model.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(model / "socket"))
        result = pack(model, archive)
    left_out = {note.split()[0] for note in result.notes}
    assert {"dead", "ring", "pipe", "socket", "around"} <= left_out
    assert {"dead", "ring", "pipe", "socket"}.isdisjoint(names(archive))


def test_a_second_hard_link_takes_no_room(model: Path, archive: Path, tmp_path: Path) -> None:
    weights = os.urandom(300_000)
    (model / "epoch-9.pt").write_bytes(weights)
    os.link(model / "epoch-9.pt", model / "last.pt")
    pack(model, archive)
    unpack(archive, tmp_path / "back")
    assert (tmp_path / "back" / "last.pt").read_bytes() == weights
    assert archive.stat().st_size < 500_000


def test_an_empty_folder_becomes_an_empty_archive(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "model").mkdir()
    assert pack(tmp_path / "model", archive).files == 0
    assert names(archive) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(ArtifactError, match="is not a folder"):
        pack(tmp_path / "none", archive)


@pytest.mark.parametrize("new_size", [60_000, 1_000], ids=["grows", "shrinks"])
def test_a_file_that_changes_while_it_is_packed_is_noted_and_the_archive_stays_readable(
    new_size: int, tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    weights = tmp_path / "model" / "weights"
    weights.write_bytes(b"x" * 50_000)
    honest = archive_create._ExactReader.read

    def change_first(reader: archive_create._ExactReader, size: int = -1) -> bytes:
        os.truncate(weights, new_size)
        return honest(reader, size)

    monkeypatch.setattr(archive_create._ExactReader, "read", change_first)
    result = pack(tmp_path / "model", archive)
    assert "weights changed while it was packed" in result.notes[0]
    unpack(archive, tmp_path / "back")
    # As long as its header says: zeros stand for what has gone.
    assert (tmp_path / "back" / "weights").read_bytes() == (b"x" * min(new_size, 50_000)).ljust(50_000, b"\0")


def test_a_full_disk_leaves_no_half_archive_and_keeps_the_old_one(model: Path, archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_bytes(b"the old one")
    (model / "big").write_bytes(os.urandom(2 << 20))
    # A limit on file size fails the write as a full disk does, without one. In a process of its own: it holds for all.
    code = (
        "import resource, signal, sys; from pathlib import Path; from gpuproof.agent.artifacts.archive_create import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: pack(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except ArtifactError as error: print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code, model, archive], capture_output=True, text=True)
    assert f"{archive} cannot be written: file too large" in output.stdout
    assert output.stderr == ""
    assert archive.read_bytes() == b"the old one"
    assert [path.name for path in archive.parent.iterdir()] == ["model.tar.gz"]


def test_a_full_disk_gets_the_advice_to_free_space(model: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (model / "big").write_bytes(os.urandom(2 << 20))
    sink = archive_create._HashingSink(io.FileIO("/dev/full", "w"), Path("model.tar.gz"))
    with pytest.raises(ArtifactError, match=r"no space left on device\. Free some disk space"):
        sink.write(b"x")


def test_an_interrupted_pack_leaves_nothing_behind(
    model: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tarfile.TarFile, "addfile", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pack(model, archive)
    assert list(archive.parent.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_left_out_with_a_note(model: Path, archive: Path) -> None:
    (model / "secret").touch(mode=0o000)
    assert pack(model, archive).notes == ("secret was left out: permission denied.",)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_packing_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with (tmp_path / "model" / "weights").open("wb") as file:
        file.truncate(200 << 20)
    # VmHWM and not getrusage: a child begins with its parent's figure there.
    code = (
        "import sys; from pathlib import Path; from gpuproof.agent.artifacts.archive_create import pack\n"
        "pack(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1])\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model", tmp_path / "a.tar.gz"],
        capture_output=True,
        check=True,
    )
    assert int(output.stdout) < 60_000  # KiB


def test_the_archive_is_a_gzip_that_ends_well(model: Path, archive: Path) -> None:
    pack(model, archive)
    with gzip.open(archive) as file:
        assert len(file.read()) % 10240 == 0  # tar's record size
