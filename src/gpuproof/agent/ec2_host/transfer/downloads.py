"""Downloads what a job needs, laid out as SageMaker does."""

from __future__ import annotations

import json
from pathlib import Path

from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli

_QUIET = "--only-show-errors"


class NothingFound(Exception):
    """No object matches the address of an input."""


def download_folder(aws: AwsCli, address: str, folder: Path) -> None:
    """Download everything below an address that ends in a slash; nothing is an empty folder.

    Raises:
        AwsFailed: it cannot be downloaded, or stored.
        OSError: the folder cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    aws.run("s3", "sync", _QUIET, address, str(folder))


def download_channel(aws: AwsCli, address: str, folder: Path) -> None:
    """Download all objects that match an address.

    An address matches also in the middle of a name, as SageMaker's S3Prefix: such objects keep their names.

    Raises:
        NothingFound: there is no such object.
        AwsFailed: they cannot be downloaded, or stored.
        OSError: the folder cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bucket, _, prefix = address[len("s3://") :].partition("/")
    if not prefix or prefix.endswith("/"):
        download_folder(aws, address, folder)
    else:
        _download_matches(aws, bucket, prefix, folder)
    if not any(path.is_file() for path in folder.rglob("*")):
        raise NothingFound(f"no S3 object matches {address}")


def _download_matches(aws: AwsCli, bucket: str, prefix: str, folder: Path) -> None:
    words = ("s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, "--delimiter", "/")
    listed = json.loads(aws.run(*words, "--output", "json") or "{}")
    parent = prefix[: prefix.rfind("/") + 1]
    for item in listed.get("Contents") or ():
        key = item["Key"]
        aws.run("s3", "cp", _QUIET, f"s3://{bucket}/{key}", str(folder / key[len(parent) :]))
    for item in listed.get("CommonPrefixes") or ():
        found = item["Prefix"]
        # Below the folder of exactly that name, files lie at the top.
        target = folder if found == f"{prefix}/" else folder / found[len(parent) :]
        aws.run("s3", "sync", _QUIET, f"s3://{bucket}/{found}", str(target))
