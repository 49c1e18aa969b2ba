"""Plans the uploads of a run: the agent, the source and local inputs."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.backends.agent_job.archive import agent_file
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.s3 import encryption
from gpuproof.backends.remote.s3_layout import input_prefix, manifest_key, object_key, uri
from gpuproof.backends.remote.upload.content_hash import HashedFile, hash_file, pack_source
from gpuproof.backends.remote.upload.input_folder import InputFolder, hash_folder
from gpuproof.backends.shared_cache import remove_unused
from gpuproof.jobs.source.digests import FilesDigest, listing_digest
from gpuproof.jobs.source.tree import SourceTree

_PACKED = "sources"
_DATE_NS = 946_684_800 * 10**9
"""The modification time of packed sources: 2000-01-01, in nanoseconds since the epoch."""


@dataclass(frozen=True)
class UploadPlan:
    """The files to upload, each to a key derived from its content, so that nothing is uploaded twice.

    Args:
        agent: `gpuproof-agent.pyz`.
        folders: local inputs, by channel or by the key of a processing job's input.
        remote: `s3://` addresses of the other inputs.
    """

    agent: HashedFile
    source: HashedFile
    folders: Mapping[str, InputFolder]
    remote: Mapping[str, str]

    def address(self, bucket: str, name: str) -> str:
        """The address of an input after the uploads."""
        if name in self.remote:
            return self.remote[name]
        return uri(bucket, input_prefix(self.folders[name].digest))

    def manifest(self) -> dict[str, dict[str, Any]]:
        """What is known of each input's files, for the run's record."""
        found: dict[str, dict[str, Any]] = {name: {"uri": address} for name, address in self.remote.items()}
        for name, folder in self.folders.items():
            digest = listing_digest({file: hashed.digest for file, hashed in folder.files.items()})
            found[name] = FilesDigest(digest, len(folder.files), folder.total_bytes).to_json()
        return found

    def calls(self, bucket: str, kms_key: str | None) -> tuple[ApiCall, ...]:
        """The uploads as API calls; those of files that are there already are skipped."""
        calls = [
            _upload(bucket, object_key(self.agent.digest), self.agent.path, "upload the agent", kms_key),
            _upload(bucket, object_key(self.source.digest), self.source.path, "upload the source", kms_key),
        ]
        for name, folder in self.folders.items():
            prefix, what = input_prefix(folder.digest), f"upload the input {name}"
            calls += [
                _upload(bucket, f"{prefix}{name_below}", file.path, what, kms_key)
                for name_below, file in folder.files.items()
            ]
            request = {"Bucket": bucket, "Key": manifest_key(folder.digest), "Body": folder.manifest()}
            calls.append(
                ApiCall(
                    "s3",
                    "put_object",
                    {**request, **encryption(kms_key)},
                    f"write the list of files of {name}",
                )
            )
        return tuple(calls)


def plan_uploads(
    tree: SourceTree, local: Mapping[str, Path], remote: Mapping[str, str], cache: Path
) -> UploadPlan:
    """Pack and hash everything to upload.

    Args:
        local: the file or folder of each local input.
        remote: `s3://` addresses of the other inputs.
        cache: the user's cache folder; the packed source is kept there for a day.

    Raises:
        GPUproofError: a file cannot be read, or changed in the meantime.
    """
    return UploadPlan(
        agent=hash_file(agent_file(cache)),
        source=_packed(tree, cache / _PACKED),
        folders={name: _hash_input(path) for name, path in local.items()},
        remote=dict(remote),
    )


def _hash_input(path: Path) -> InputFolder:
    if path.is_dir():
        return hash_folder(path)
    # As SageMaker does with a single object: the channel is a folder that contains it.
    file = hash_file(path)
    digest = hashlib.sha256(f"{file.digest} {file.size} {path.name}\0".encode()).hexdigest()
    return InputFolder(path.parent, {path.name: file}, digest)


def _packed(tree: SourceTree, folder: Path) -> HashedFile:
    """Pack the source into a file named after its digest, which is kept for a later submission of the same source."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_unused(folder.iterdir())  # also the folder of a process that was killed while it packed
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        packed = pack_source(tree, Path(scratch))
        # The same content has the same date: another submission of this source may replace the file while it is uploaded.
        os.utime(packed.path, ns=(time.time_ns(), _DATE_NS))
        kept = folder / f"{packed.digest}.tar.gz"
        packed.path.replace(kept)
    return HashedFile(kept, packed.digest, packed.size, (packed.size, _DATE_NS))


def _upload(bucket: str, key: str, path: Path, what: str, kms_key: str | None) -> ApiCall:
    request: dict[str, Any] = {"Filename": str(path), "Bucket": bucket, "Key": key}
    if kms_key:
        request["ExtraArgs"] = encryption(kms_key)
    return ApiCall("s3", "upload_file", request, f"{what}, unless it exists")
