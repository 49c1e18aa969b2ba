"""What a run sends to its bucket: the agent, the source, and inputs that lie on this machine."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.backends.agent_archive import agent_file
from gpuproof.backends.aws.s3 import encryption
from gpuproof.backends.sagemaker.s3_layout import input_prefix, manifest_key, object_key, uri
from gpuproof.backends.sagemaker.submission.aws_call import Call
from gpuproof.backends.sagemaker.upload.upload import Folder, Parcel, pack_source, parcel_of, read_folder
from gpuproof.jobs.source_tree import SourceTree

_PACKED = "sources"
_OLD_SECONDS = 86_400.0


@dataclass(frozen=True)
class Cargo:
    """What is sent; each under a name that follows from its content, so that nothing goes twice.

    Args:
        agent: `gpuproof-agent.pyz`.
        source: the packed source tree.
        folders: inputs on this machine, by channel or by the key of a processing job's input.
        remote: the other inputs' `s3://` addresses.
    """

    agent: Parcel
    source: Parcel
    folders: Mapping[str, Folder]
    remote: Mapping[str, str]

    def address(self, bucket: str, name: str) -> str:
        """Where an input lies once everything is sent."""
        if name in self.remote:
            return self.remote[name]
        return uri(bucket, input_prefix(self.folders[name].digest))

    def calls(self, bucket: str, kms_key: str | None) -> tuple[Call, ...]:
        """The uploads, as data; what is there already is passed over."""
        made = [
            _upload(bucket, object_key(self.agent.digest), self.agent.path, "send the agent", kms_key),
            _upload(bucket, object_key(self.source.digest), self.source.path, "send the source", kms_key),
        ]
        for name, folder in self.folders.items():
            prefix, what = input_prefix(folder.digest), f"send the input {name}"
            made += [
                _upload(bucket, f"{prefix}{file}", parcel.path, what, kms_key)
                for file, parcel in folder.files.items()
            ]
            request = {"Bucket": bucket, "Key": manifest_key(folder.digest), "Body": folder.manifest()}
            made.append(
                Call("s3", "put_object", {**request, **encryption(kms_key)}, f"list what {name} holds")
            )
        return tuple(made)


def load(tree: SourceTree, local: Mapping[str, Path], remote: Mapping[str, str], cache: Path) -> Cargo:
    """Read everything that is to be sent, for its digests.

    Args:
        local: the file or folder behind each input on this machine.
        remote: the other inputs' `s3://` addresses.
        cache: the user's cache folder; the packed source lies there until it is old.

    Raises:
        GPUproofError: something cannot be read, or was written meanwhile.
    """
    return Cargo(
        agent=parcel_of(agent_file(cache)),
        source=_packed(tree, cache / _PACKED),
        folders={name: _folder(path) for name, path in local.items()},
        remote=dict(remote),
    )


def _folder(path: Path) -> Folder:
    if path.is_dir():
        return read_folder(path)
    # As SageMaker does with one object: the channel is a folder that holds it.
    file = parcel_of(path)
    digest = hashlib.sha256(f"{file.digest} {file.size} {path.name}\0".encode()).hexdigest()
    return Folder(path.parent, {path.name: file}, digest)


def _packed(tree: SourceTree, folder: Path) -> Parcel:
    """The archive, kept under its digest until it is sent, for a dry run or a failure may come in between."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.tar.gz"):
        if time.time() - old.stat().st_mtime > _OLD_SECONDS:
            old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        parcel = pack_source(tree, Path(scratch))
        kept = folder / f"{parcel.digest}.tar.gz"
        parcel.path.replace(kept)
    return Parcel(kept, parcel.digest, parcel.size, parcel.stamp)


def _upload(bucket: str, key: str, path: Path, what: str, kms_key: str | None) -> Call:
    request: dict[str, Any] = {"Filename": str(path), "Bucket": bucket, "Key": key}
    if kms_key:
        request["ExtraArgs"] = encryption(kms_key)
    return Call("s3", "upload_file", request, f"{what}, unless it is there")
