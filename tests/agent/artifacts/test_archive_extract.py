"""Unpacking: no archive can write outside of its folder."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.artifacts.archive_create import ArtifactError, pack
from gpuproof.agent.artifacts.archive_extract import UnsafeArchive, unpack

Member = tuple[str, bytes, str | bytes]


@pytest.fixture
def forge(tmp_path: Path) -> Callable[..., Path]:
    """Write an archive with the given (name, type, link target or content), malicious ones included."""

    def write(*members: Member) -> Path:
        archive = tmp_path / "forged.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name, kind, rest in members:
                member = tarfile.TarInfo(name)
                member.type = kind
                member.linkname = rest if isinstance(rest, str) else ""
                content = rest if isinstance(rest, bytes) else b""
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return archive

    return write


FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE

WICKED: dict[str, list[Member]] = {
    "a name that climbs": [("../evil", FILE, b"x")],
    "a name that climbs from below": [("a/../../evil", FILE, b"x")],
    "an absolute name": [("/tmp/evil", FILE, b"x")],
    "an absolute link": [("a", LINK, "/etc")],
    "a link that climbs": [("a", LINK, "../evil")],
    "a link that climbs from below": [("d/a", LINK, "../../evil")],
    "a file behind a link": [("a", LINK, "."), ("a/evil", FILE, b"x")],
    "a file in the place of a link": [("a", LINK, "b"), ("a", FILE, b"x")],
    "a link in the place of a file": [("a", FILE, b"x"), ("a", LINK, "b")],
    "a link through a link to the top": [("a/b/top", LINK, "../.."), ("a/b/out", LINK, "top/../evil")],
    "links in a circle": [("a", LINK, "b"), ("b", LINK, "a")],
    "a hard link that climbs": [("a", HARD, "../evil")],
    "a hard link to an absolute path": [("a", HARD, "/etc/passwd")],
    "a hard link to nothing": [("a", HARD, "b")],
    "a hard link to a folder": [("b", FOLDER, ""), ("a", HARD, "b")],
    "a hard link to a link": [("b", LINK, "c"), ("a", HARD, "b")],
    "a character device": [("null", tarfile.CHRTYPE, "")],
    "a block device": [("disk", tarfile.BLKTYPE, "")],
    "a pipe": [("pipe", tarfile.FIFOTYPE, "")],
    "a folder in the place of a file": [("a", FILE, b"x"), ("a", FOLDER, "")],
    "a file in the place of a folder": [("a/b", FILE, b"x"), ("a", FILE, b"x")],
    "a file below a file": [("a", FILE, b"x"), ("a/b", FILE, b"x")],
}


@pytest.mark.parametrize("members", WICKED.values(), ids=WICKED.keys())
def test_a_wicked_archive_is_refused_by_name_and_leaves_nothing(
    members: list[Member], forge: Callable[..., Path], tmp_path: Path
) -> None:
    archive = forge(("innocent", FILE, b"x"), *members)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsafeArchive) as refusal:
        unpack(archive, tmp_path / "out")
    assert any(name in str(refusal.value) for name, _, _ in members)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "out"])


def test_a_file_replaced_within_the_archive_does_not_write_through_its_hard_link(
    forge: Callable[..., Path], tmp_path: Path
) -> None:
    archive = forge(("a", FILE, b"first"), ("b", HARD, "a"), ("a", FILE, b"second"))
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"second"
    assert (tmp_path / "out" / "b").read_bytes() == b"first"


def test_harmless_links_are_made(forge: Callable[..., Path], tmp_path: Path) -> None:
    archive = forge(
        ("1/w", FILE, b"x"), ("latest", LINK, "1"), ("1/up", LINK, "../latest/w"), ("dead", LINK, "none")
    )
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "1" / "up").read_bytes() == b"x"
    assert (tmp_path / "out" / "dead").is_symlink()


def test_what_gnu_tar_writes_with_a_leading_dot_is_unpacked(
    forge: Callable[..., Path], tmp_path: Path
) -> None:
    written = unpack(forge(("./", FOLDER, ""), ("./a//b", FILE, b"x")), tmp_path / "out")
    assert written == [tmp_path / "out" / "a" / "b"]


def test_files_are_replaced_and_others_stay(forge: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "d").mkdir(parents=True)
    (out / "d" / "old").write_bytes(b"stays")
    (out / "d" / "new").write_bytes(b"goes")
    unpack(forge(("d/new", FILE, b"came")), out)
    assert {path.name: path.read_bytes() for path in (out / "d").iterdir()} == {
        "old": b"stays",
        "new": b"came",
    }


def test_a_file_takes_the_place_of_a_link_and_not_of_what_the_link_names(
    forge: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "precious")
    unpack(forge(("a", FILE, b"x")), tmp_path / "out")
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_link_that_already_stands_in_the_way_is_not_followed(
    forge: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="is a link to elsewhere"):
        unpack(forge(("first", FILE, b"x"), ("d/e/f", FILE, b"x")), tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["d"]


def test_set_user_id_does_not_come_along(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("tool")
        member.mode = 0o6777
        tar.addfile(member)
    [tool] = unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert oct(tool.stat().st_mode & 0o7777) == "0o755"


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_cut_off_archive_is_an_error_and_leaves_nothing(kept: float, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(os.urandom(200_000))
    pack(tmp_path / "model", tmp_path / "a.tar.gz")
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(ArtifactError, match="no whole tar archive"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(os.urandom(200_000))
    pack(tmp_path / "model", tmp_path / "a.tar.gz")
    damaged = bytearray((tmp_path / "a.tar.gz").read_bytes())
    damaged[100_000] ^= 0xFF
    (tmp_path / "a.tar.gz").write_bytes(damaged)
    with pytest.raises(ArtifactError):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"<html>AccessDenied</html>"], ids=["empty", "a web page"])
def test_a_file_that_is_not_an_archive_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(ArtifactError, match="no whole tar archive"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")


def test_an_archive_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"a\.tar\.gz is not there"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")
