"""Where the code of a job is, by its description, and bounded copies of it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpuproof.account.audit.detail import source
from gpuproof.account.audit.detail.source import SourceLocation, SourceUnavailable, fetch_source, source_of
from gpuproof.account.cleanup.resource import Kind
from gpuproof.backends.aws import Aws
from support.archives import archive
from support.emulated_account import EmulatedAccount

REGION = "us-east-1"


def test_sdk_v2_names_an_archive_in_its_hyperparameters() -> None:
    parameters = {
        "sagemaker_submit_directory": '"s3://b/job/source/sourcedir.tar.gz"',
        "sagemaker_program": '"t.py"',
    }
    found = source_of(Kind.TRAINING, {"HyperParameters": parameters})
    assert found == SourceLocation("b", "job/source/sourcedir.tar.gz", "t.py")


def test_sdk_v3_and_gpuproof_have_a_channel_of_the_code() -> None:
    channel = {"ChannelName": "code", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/job/input/code"}}}
    drivers = {"ChannelName": "sm_drivers", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/drivers"}}}
    found = source_of(Kind.TRAINING, {"InputDataConfig": [drivers, channel]})
    assert found == SourceLocation("b", "job/input/code")


def test_processing_jobs_have_an_input_of_the_code() -> None:
    item = {"InputName": "code", "S3Input": {"S3Uri": "s3://b/job/input/code/process.py"}}
    assert source_of(Kind.PROCESSING, {"ProcessingInputs": [item]}) == SourceLocation(
        "b", "job/input/code/process.py"
    )


@pytest.mark.parametrize(
    "description",
    [{}, {"HyperParameters": {"sagemaker_submit_directory": '"/opt/ml/code"'}}, {"InputDataConfig": []}],
)
def test_code_in_the_image_is_not_in_s3(description: dict[str, object]) -> None:
    assert source_of(Kind.TRAINING, description) is None


@pytest.mark.slow
def test_an_archive_is_unpacked_and_a_prefix_copied(
    account: EmulatedAccount, aws: Aws, tmp_path: Path
) -> None:
    _put(account, "a/sourcedir.tar.gz", archive(**{"train.py": b"print(1)"}))
    assert _names(aws, "a/sourcedir.tar.gz", tmp_path / "one") == ["train.py"]
    for key, content in (("b/train.py", b"print(1)"), ("b/lib/net.py", b""), ("b/data.bin", b"x")):
        _put(account, key, content)
    _put(account, "behind/secret.py", b"")
    assert _names(aws, "b", tmp_path / "two") == ["lib/net.py", "train.py"]


@pytest.mark.slow
def test_an_archive_that_leads_out_of_its_folder_is_refused(
    account: EmulatedAccount, aws: Aws, tmp_path: Path
) -> None:
    _put(account, "evil.tar.gz", archive(**{"../evil.py": b"print(1)"}))
    with pytest.raises(SourceUnavailable, match="cannot be unpacked"):
        _names(aws, "evil.tar.gz", tmp_path / "code")
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.slow
def test_what_is_too_large_missing_or_no_archive_is_named(
    account: EmulatedAccount, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceUnavailable, match="no longer exists"):
        _names(aws, "gone.tar.gz", tmp_path / "one")
    _put(account, "broken.tar.gz", b"not an archive")
    with pytest.raises(SourceUnavailable, match="is no whole archive"):
        _names(aws, "broken.tar.gz", tmp_path / "two")
    monkeypatch.setattr(source, "MOST_UNPACKED", 1000)
    _put(account, "bomb.tar.gz", _zeros(5000))
    with pytest.raises(SourceUnavailable, match="not only code"):
        _names(aws, "bomb.tar.gz", tmp_path / "three")


@pytest.fixture
def aws(account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch) -> Aws:
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    account.client("s3", REGION).create_bucket(Bucket="code")
    return Aws(session=lambda: account.session(REGION), region=REGION)


def _put(account: EmulatedAccount, key: str, content: bytes) -> None:
    account.client("s3", REGION).put_object(Bucket="code", Key=key, Body=content)


def _names(aws: Aws, key: str, folder: Path) -> list[str]:
    folder.mkdir()
    return [str(path.relative_to(folder)) for path in fetch_source(aws, SourceLocation("code", key), folder)]


def _zeros(size: int) -> bytes:
    """An archive with one file of zeros."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("zeros")
        member.size = size
        tar.addfile(member, io.BytesIO(bytes(size)))
    return content.getvalue()
