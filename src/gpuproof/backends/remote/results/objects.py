"""The results of a job on S3, and their download; no partial file is ever visible."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.backends.aws import Aws, S3Object
from gpuproof.backends.base import Artifact, TransferProgress
from gpuproof.backends.s3_inputs.mapping import S3Prefix, lay_out
from gpuproof.errors import GPUproofError, InvalidJob
from gpuproof.util.atomic import replacing

_ARCHIVE = ".tar.gz"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Results:
    """Where a job's results are.

    Args:
        archives: the prefix of a training job's `model.tar.gz` and `output.tar.gz`.
        outputs: a processing job's outputs by name.
        verdict: the prefix of a processing job's verdicts.
    """

    archives: S3Prefix | None = None
    outputs: Mapping[str, S3Prefix] = field(default_factory=dict)
    verdict: S3Prefix | None = None


def find_artifacts(aws: Aws, results: Results) -> list[Artifact]:
    """The results of a job so far, with sizes."""
    found: list[Artifact] = []
    if results.archives is not None:
        for name, objects in group_by_top_name(results.archives, _listed(aws, results.archives)).items():
            location = f"{results.archives}{name}"
            files = None if name.endswith(_ARCHIVE) else len(objects)
            found.append(Artifact(name, location, files, sum(item.size for item in objects)))
    for name, prefix in results.outputs.items():
        objects = _listed(aws, prefix)
        found.append(Artifact(name, str(prefix), len(objects), sum(item.size for item in objects)))
    return found


def group_by_top_name(prefix: S3Prefix, objects: Iterable[S3Object]) -> dict[str, list[S3Object]]:
    """Objects by the first part of their path below a prefix; the model first."""
    groups: dict[str, list[S3Object]] = {}
    for item in objects:
        top = item.key.removeprefix(prefix.prefix).partition("/")[0]
        if top:
            groups.setdefault(top, []).append(item)
    return dict(sorted(groups.items(), key=lambda group: (not group[0].startswith("model"), group[0])))


class Downloads:
    """Downloads results into a folder.

    Args:
        progress: called during downloads.
    """

    def __init__(self, aws: Aws, progress: TransferProgress | None = None) -> None:
        self._aws = aws
        self._progress = progress

    def archives(self, prefix: S3Prefix, destination: Path, *, extract: bool = False) -> Iterator[Path]:
        """Download a training job's archives, or unpack each into a folder of its name.

        Raises:
            ArtifactError: an archive has members outside its folder; nothing of it was unpacked.
            OSError: the disk is full, or the folder is not writable; no partial file is left.
        """
        for name, objects in group_by_top_name(prefix, _listed(self._aws, prefix)).items():
            if not name.endswith(_ARCHIVE):
                # Without compression SageMaker writes a folder.
                below = S3Prefix(prefix.bucket, f"{prefix.prefix}{name}/")
                yield self._tree(below, objects, destination / name, name)
            elif extract:
                target = destination / name.removesuffix(_ARCHIVE)
                with self._downloaded(objects[0], destination / name) as archive:
                    unpack(archive, target)
                yield target
            else:
                with self._downloaded(objects[0], destination / name) as archive:
                    archive.replace(destination / name)
                yield destination / name

    def tree(self, prefix: S3Prefix, destination: Path, name: str) -> Path | None:
        """Download everything below a prefix into a folder; `None` if there is nothing."""
        objects = _listed(self._aws, prefix)
        return self._tree(prefix, objects, destination, name) if objects else None

    def _tree(self, prefix: S3Prefix, objects: list[S3Object], destination: Path, name: str) -> Path:
        files = lay_out(prefix, objects).files
        total, done = sum(item.size for item in files.values()), 0
        check_free_space(destination, total)
        for path, item in files.items():
            _check_links(destination, path)
            with self._downloaded(item, destination / path, name, done, total) as file:
                file.replace(destination / path)
            done += item.size
        return destination

    @contextmanager
    def _downloaded(
        self, item: S3Object, destination: Path, name: str = "", before: int = 0, total: int = 0
    ) -> Generator[Path]:
        """Download an object to a temporary file next to its destination, for the caller to rename."""
        check_free_space(destination.parent, item.size)
        destination.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(destination)
        part = destination.with_name(f".{destination.name[:200]}.{os.getpid()}.part")
        done = before
        try:
            with self._aws.open_object(item.bucket, item.key) as source, part.open("wb") as target:
                while content := source.read(_CHUNK):
                    target.write(content)
                    done += len(content)
                    if self._progress is not None:
                        self._progress(name or destination.name, done, total or item.size)
            yield part
        finally:
            part.unlink(missing_ok=True)


def _remove_leftovers(destination: Path) -> None:
    """Remove temporary files of downloads of this file whose process was killed."""
    for part in destination.parent.glob(f".{glob.escape(destination.name[:200])}.*.part"):
        pid = part.name.split(".")[-2]
        if not pid.isdigit():
            continue
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            part.unlink(missing_ok=True)
        except OSError:
            continue  # another user's process, which is alive


def check_free_space(folder: Path, needed: int) -> None:
    """Check the free disk space before a download, which is billed.

    Raises:
        OSError: ENOSPC.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if needed > shutil.disk_usage(existing).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@contextmanager
def translated_file_errors(destination: Path, location: str) -> Generator[None]:
    """Translate file errors into errors with a remedy.

    Args:
        location: where the results are on S3.
    """
    try:
        yield
    except ArtifactError as error:
        raise GPUproofError(str(error), remedy=f"The archive is at {location}.") from error
    except OSError as error:
        where = error.filename or destination
        raise GPUproofError(
            f"{where} could not be written: {error.strerror or error}.",
            remedy=f"Free some space, or choose another folder with --to; the results are kept at {location}.",
        ) from error


def write_atomically(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file that appears completely or not at all."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.writelines(pieces)
    return path


def _listed(aws: Aws, prefix: S3Prefix) -> list[S3Object]:
    return list(aws.list_objects(prefix.bucket, prefix.prefix))


def _check_links(destination: Path, path: str) -> None:
    """Reject a symbolic link in the path, which would write the file elsewhere."""
    for parent in Path(path).parents:
        if parent != Path() and (destination / parent).is_symlink():
            raise InvalidJob(
                f"{destination / parent} is a symbolic link: {path} was not written.",
                remedy="Remove the link, or choose another folder.",
            )
