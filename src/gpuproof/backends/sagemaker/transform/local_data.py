"""The data of a batch transform job on this machine: a file or a folder that is uploaded for the job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.remote.s3_layout import uri
from gpuproof.backends.remote.upload.input_folder import list_files
from gpuproof.errors import UsageError
from gpuproof.jobs.source.secret_files import find_secret_names
from gpuproof.util.humanize import format_bytes, pluralize


@dataclass(frozen=True)
class LocalData:
    """Files that are uploaded.

    Args:
        names: relative to it, sorted.
        what: the file or folder as the user named it.
    """

    root: Path
    names: tuple[str, ...]
    what: str


def find_data(text: str) -> LocalData:
    """The files of a file or folder.

    Raises:
        UsageError: it does not exist or is empty, or a file's name is one that secrets have.
    """
    path = Path(text).expanduser()
    if not path.exists():
        raise UsageError(
            f"--input {text} is neither an S3 address nor a file or folder here.",
            remedy="--input s3://BUCKET/PREFIX, or --input FOLDER",
        )
    root = path if path.is_dir() else path.parent
    names = sorted(list_files(root)) if path.is_dir() else [path.name]
    if not names:
        raise UsageError(f"--input {text} contains no files.")
    secret = next(find_secret_names(root, names), None)
    if secret is not None:
        raise UsageError(
            f"Nothing was uploaded, because {secret.name} in {text} looks like a secret ({secret.reason}).",
            remedy="Move it elsewhere, or upload the data yourself: aws s3 cp --recursive "
            f"{text} s3://BUCKET/PREFIX; then --input s3://BUCKET/PREFIX",
        )
    return LocalData(root, tuple(names), text)


def upload_calls(data: LocalData, bucket: str, prefix: str) -> tuple[ApiCall, ...]:
    """The calls that upload the files; the first one's undo deletes all of them."""
    keys = [f"{prefix}{name}" for name in data.names]
    size = sum((data.root / name).stat().st_size for name in data.names)
    address = uri(bucket, prefix)
    what = f"upload {data.what} ({pluralize(len(keys), 'file')}, {format_bytes(size)}) to {address}"
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}}
    undo = ApiCall("s3", "delete_objects", request, f"delete {address}")
    return tuple(
        ApiCall(
            "s3",
            "upload_file",
            {"Filename": str(data.root / name), "Bucket": bucket, "Key": key},
            what,
            undo if number == 0 else None,
        )
        for number, (name, key) in enumerate(zip(data.names, keys, strict=True))
    )
