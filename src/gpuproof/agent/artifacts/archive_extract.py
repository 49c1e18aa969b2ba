"""Extracts an untrusted archive: all of it or nothing, and nothing outside of its folder.

Written without tarfile's own extraction filters, which Python 3.9 has from its 17th patch on only; and they let a
chain of links through in some versions (CVE-2025-4517).
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import ArtifactError, shown

_CHUNK = 1 << 20
_MOST_LINKS = 40  # as many as Linux follows before it says ELOOP: path_resolution(7)


class UnsafeArchive(ArtifactError):
    """An archive with a member that must not be unpacked; the message names it. Nothing was unpacked."""


def unpack(archive: Path, destination: Path) -> list[Path]:
    """Unpacks a tar archive, compressed or not, into a folder.

    Files of the same name are replaced. Permissions become 644 or 755; owners and times are not taken over.

    Args:
        archive: the `.tar.gz`.
        destination: the folder; made if need be. What is in it and not in the archive stays.

    Returns:
        The files and links that were written, in the archive's order.

    Raises:
        UnsafeArchive: a member's name or link leads out of the folder, or it is a device or a pipe.
        ArtifactError: the archive is cut off or no tar archive, or the folder cannot be written.
    """
    try:
        destination.mkdir(parents=True, exist_ok=True)
        # Beside where the files will lie, so that the last step is a rename and a bad archive leaves nothing.
        staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=destination))
    except OSError as error:
        raise ArtifactError(f"{destination} cannot be written: {error.strerror}.") from error
    try:
        with tarfile.open(archive, "r:*", encoding="utf-8", errors="surrogateescape") as tar:
            names = _extract(tar, staging)
            # tarfile stops at the end of the tar, before gzip has compared its checksum.
            while tar.fileobj.read(_CHUNK):
                pass
        return _move(names, staging, destination)
    except FileNotFoundError as error:
        raise ArtifactError(f"{error.filename or archive} is not there.") from error
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArtifactError(
            f"{archive} is no whole tar archive ({error}). It may have been cut off on its way: fetch it again."
        ) from error
    except OSError as error:
        raise ArtifactError(f"{archive} cannot be unpacked into {destination}: {error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(tar: tarfile.TarFile, staging: Path) -> dict[str, bool]:
    """Extracts all members into an empty folder and returns their names, each with whether it is a folder.

    Links are made last: until then no path in the folder can lead out of it.
    """
    is_folder: dict[str, bool] = {}
    links: dict[str, str] = {}
    for member in tar:
        name = _safe_name(member.name, member.name)
        if not name:
            continue  # the folder itself, as `tar -C folder .` writes it
        if name in links or any(parent in links for parent in _parents(name)):
            raise _unsafe(member.name, "lies behind a link")
        if member.issym():
            if name in is_folder:
                raise _unsafe(member.name, "is there twice, once as a link")
            links[name] = member.linkname
        else:
            _make(tar, member, staging, name)
        is_folder[name] = member.isdir()
    for name, target in links.items():
        if "\0" in target or _leads_out(name, links):
            raise _unsafe(name, "is a link that leads out of the archive, or in a circle")
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).symlink_to(target)
    return is_folder


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, staging: Path, name: str) -> None:
    path = staging / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif member.islnk():
            # A name that only the archive's own files can have: the staging folder began empty.
            os.link(staging / _safe_name(member.name, member.linkname), path, follow_symlinks=False)
        elif member.isreg():
            _write(tar, member, path)
        else:
            raise _unsafe(member.name, "is a device or a pipe")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _unsafe(member.name, "is there twice, as things of different kinds") from error
    except (FileNotFoundError, PermissionError) as error:
        if not member.islnk():
            raise
        raise _unsafe(
            member.name, f"is a hard link to {shown(member.linkname)}, which is no file before it"
        ) from error


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = tar.extractfile(member)
    if source is None:
        raise _unsafe(member.name, "is a file without content")
    # A later member of the same name replaces the earlier, and must not write through its hard links.
    path.unlink(missing_ok=True)
    with source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
    path.chmod(0o755 if member.mode & 0o111 else 0o644)


def _safe_name(member: str, name: str) -> str:
    """A member's name without empty and `.` parts; an empty string for the folder itself."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise _unsafe(member, "leads out of the folder")
    return "/".join(parts)


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _leads_out(link: str, links: dict[str, str]) -> bool:
    """Whether a link leads outside the archive's root, resolved as the kernel would.

    Reading the target's text is not enough: `a/b` may itself be a link to the top, and then `a/b/..` is outside.
    """
    here = link.split("/")[:-1]
    todo = [*reversed(links[link].split("/"))]
    if links[link].startswith("/"):
        return True
    followed = 1
    while todo:
        part = todo.pop()
        if part == "..":
            if not here:
                return True
            here.pop()
        elif part not in ("", "."):
            here.append(part)
            target = links.get("/".join(here))
            if target is not None:
                followed += 1
                if target.startswith("/") or followed > _MOST_LINKS:
                    return True
                here.pop()
                todo += reversed(target.split("/"))
    return False


def _move(is_folder: dict[str, bool], staging: Path, destination: Path) -> list[Path]:
    """Moves extracted members to their destination; existing folders are merged."""
    for name in is_folder:
        way = next((parent for parent in _parents(name) if (destination / parent).is_symlink()), None)
        if way is not None:
            raise ArtifactError(
                f"{shown(name)} was not unpacked, nor anything else: {destination / way} is a link to elsewhere. "
                "Remove it, or unpack into another folder."
            )
    written: list[Path] = []
    for name, folder in is_folder.items():
        path = destination / name
        if folder:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(path)
        written.append(path)
    return written


def _unsafe(member: str, what: str) -> UnsafeArchive:
    return UnsafeArchive(f"The archive's member {shown(member)} {what}. Nothing was unpacked.")
