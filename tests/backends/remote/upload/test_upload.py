"""Code and inputs on their way to the bucket: nothing twice, nothing half, nothing that has changed meanwhile."""

from __future__ import annotations

import json
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.s3_transfer import PART
from gpuproof.backends.remote.s3_layout import manifest_key
from gpuproof.backends.remote.upload import upload_plan
from gpuproof.backends.remote.upload.content_hash import hash_file, pack_source
from gpuproof.backends.remote.upload.input_folder import hash_folder
from gpuproof.backends.remote.upload.upload import upload_folder, upload_object
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.jobs.source.tree import SourceFile, SourceTree, collect
from support.faulty_aws import FakeResponse, FaultyAws, disconnect, xml_error
from support.s3_server import Bucket, MotoServer


@pytest.fixture
def faulty(moto_server: MotoServer, aws_environment: pytest.MonkeyPatch) -> Iterator[FaultyAws]:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    with FaultyAws(moto_server.url) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        yield server


@pytest.fixture
def aws(faulty: FaultyAws) -> Aws:
    return Aws(sleep=lambda _: None, region="us-east-1")


@pytest.fixture
def bucket(moto_server: MotoServer, faulty: FaultyAws) -> Bucket:
    return moto_server.bucket()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "lib" / "empty").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n")
    (root / "lib" / "net.py").write_text("x = 1\n")
    (root / "run.sh").write_text("true\n")
    (root / "run.sh").chmod(0o750)
    (root / "link.py").symlink_to("lib/net.py")
    return root


def keys(bucket: Bucket) -> list[str]:
    found = bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])
    return sorted(item["Key"] for item in found)


def packed(project: Path, folder: Path) -> str:
    return pack_source(collect(project, "train.py"), folder).digest


# The archive.


def test_the_archive_holds_the_tree(project: Path, tmp_path: Path) -> None:
    hashed = pack_source(collect(project, "train.py"), tmp_path / "out")
    with tarfile.open(hashed.path) as archive:
        assert archive.getnames() == ["lib/empty", "lib/net.py", "link.py", "run.sh", "train.py"]
        assert archive.extractfile("train.py").read() == b"print(1)\n"  # type: ignore[union-attr]
        link, script = archive.getmember("link.py"), archive.getmember("run.sh")
        assert (link.issym(), link.linkname) == (True, "lib/net.py")
        assert (script.mode, archive.getmember("train.py").mode) == (0o755, 0o644)
        assert archive.getmember("lib/empty").isdir()


def test_unchanged_code_has_the_same_digest_whenever_and_by_whomever(project: Path, tmp_path: Path) -> None:
    first = packed(project, tmp_path / "1")
    os.utime(project / "train.py", (1, 1))
    (project / "train.py").chmod(0o600)
    (project / "run.sh").chmod(0o711)
    assert packed(project, tmp_path / "2") == first


def test_changed_code_has_another_digest(project: Path, tmp_path: Path) -> None:
    first = packed(project, tmp_path / "1")
    (project / "train.py").write_text("print(2)\n")
    second = packed(project, tmp_path / "2")
    (project / "train.py").rename(project / "lib" / "train.py")
    (project / "train.py").symlink_to("lib/train.py")
    assert len({first, second, packed(project, tmp_path / "3")}) == 3


def test_the_order_in_which_files_were_found_does_not_matter(project: Path, tmp_path: Path) -> None:
    tree = collect(project, "train.py")
    turned = SourceTree(tree.root, tree.files[::-1], tree.total_bytes, tree.empty_folders)
    assert pack_source(turned, tmp_path / "1").digest == pack_source(tree, tmp_path / "2").digest


def test_names_that_are_no_utf8_travel(project: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (project / name).write_text("x")
    hashed = pack_source(collect(project, "train.py"), tmp_path / "out")
    with tarfile.open(hashed.path) as archive:
        assert name in archive.getnames()


@pytest.mark.parametrize("change", [b"", b"now it is much longer than it was before\n"])
def test_a_file_that_does_not_hold_still_is_named(tmp_path: Path, change: bytes) -> None:
    (tmp_path / "train.py").write_bytes(b"print(1)\n")

    class Restless(type(tmp_path)):
        def open(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
            file = super().open(*arguments, **more)  # type: ignore[arg-type]
            return _Changing(file, Path(self), change)

    tree = SourceTree(Restless(tmp_path), (SourceFile("train.py", 9, 0o644),), 9)
    with pytest.raises(GPUproofError, match=r"train\.py changed while it was uploaded"):
        pack_source(tree, tmp_path / "out")


class _Changing:
    """A file that another process writes just after its size was read."""

    def __init__(self, file: object, path: Path, content: bytes) -> None:
        self._file, self._path, self._content = file, path, content

    def fileno(self) -> int:
        return self._file.fileno()  # type: ignore[attr-defined]

    def read(self, size: int) -> bytes:
        if self._content is not None:
            self._path.write_bytes(self._content)
        return self._file.read(size)  # type: ignore[attr-defined]

    def __enter__(self) -> _Changing:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # type: ignore[attr-defined]


def test_a_source_file_that_is_gone_is_named(tmp_path: Path) -> None:
    tree = SourceTree(tmp_path, (SourceFile("gone.py", 9, 0o644),), 9)
    with pytest.raises(UsageError, match=r"gone\.py cannot be uploaded: no such file"):
        pack_source(tree, tmp_path / "out")


# Single files.


@pytest.mark.slow
def test_what_is_there_is_not_sent_again(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, project: Path, tmp_path: Path
) -> None:
    updates: list[tuple[int, int]] = []
    hashed = pack_source(collect(project, "train.py"), tmp_path / "1")
    first = upload_object(
        aws, bucket.name, hashed, progress=lambda done, total: updates.append((done, total))
    )
    assert first.sent == hashed.size
    assert updates[-1] == (hashed.size, hashed.size)
    again = upload_object(aws, bucket.name, pack_source(collect(project, "train.py"), tmp_path / "2"))
    assert (again.sent, again.uri) == (0, first.uri)
    assert faulty.count("PUT") == 1
    assert keys(bucket) == [f"gpuproof/objects/{hashed.digest}"]


@pytest.mark.slow
def test_an_object_that_may_expire_soon_is_sent_again(aws: Aws, bucket: Bucket, project: Path) -> None:
    hashed = hash_file(project / "train.py")
    upload_object(aws, bucket.name, hashed)
    late = time.time() + 21 * 86400
    assert upload_object(aws, bucket.name, hashed, now=lambda: late).sent == hashed.size


@pytest.mark.slow
def test_half_an_object_does_not_pass_for_all_of_it(aws: Aws, bucket: Bucket, project: Path) -> None:
    hashed = hash_file(project / "train.py")
    bucket.put(**{f"gpuproof/objects/{hashed.digest}": b"pri"})
    assert upload_object(aws, bucket.name, hashed).sent == hashed.size
    assert aws.get_bytes(bucket.name, f"gpuproof/objects/{hashed.digest}") == b"print(1)\n"


@pytest.mark.slow
def test_without_list_permission_uploads_still_work(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, project: Path
) -> None:
    faulty.fault("HEAD", FakeResponse(403, b""))
    assert upload_object(aws, bucket.name, hash_file(project / "train.py")).sent


@pytest.mark.slow
def test_a_small_file_that_was_written_since_does_not_go(aws: Aws, bucket: Bucket, project: Path) -> None:
    hashed = hash_file(project / "train.py")
    (project / "train.py").write_text("print(2)\n")
    with pytest.raises(GPUproofError, match=r"train\.py changed while it was uploaded"):
        upload_object(aws, bucket.name, hashed)
    assert keys(bucket) == []


@pytest.mark.slow
def test_a_large_file_that_was_written_meanwhile_does_not_stay(
    aws: Aws, bucket: Bucket, tmp_path: Path
) -> None:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(PART + 5))
    hashed = hash_file(path)

    def write(done: int, total: int) -> None:
        if done == total:
            os.utime(path, (1, 1))

    with pytest.raises(GPUproofError, match="big changed while it was uploaded"):
        upload_object(aws, bucket.name, hashed, progress=write)
    assert keys(bucket) == []


@pytest.mark.slow
def test_a_connection_that_is_lost_for_good_leaves_nothing(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, project: Path
) -> None:
    faulty.fault("PUT", disconnect(), times=None)
    with pytest.raises(AwsUnreachable, match=f"s3://{bucket.name}/gpuproof/objects/") as caught:
        upload_object(aws, bucket.name, hash_file(project / "train.py"))
    assert caught.value.remedy
    assert keys(bucket) == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing cannot be uploaded: no such file"):
        hash_file(tmp_path / "nothing")


# The code channel.


# Input folders.


@pytest.mark.slow
def test_a_folder_is_sent_once_with_a_manifest(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, data: Path
) -> None:
    folder = hash_folder(data)
    updates: list[tuple[int, int]] = []
    sent = upload_folder(aws, bucket.name, folder, progress=lambda done, total: updates.append((done, total)))
    assert (sent.size, sent.sent) == (4000, 4000)
    assert updates[-1] == (4000, 4000)
    for name in folder.files:
        assert aws.get_bytes(bucket.name, f"{sent.key}{name}") == (data / name).read_bytes()
    manifest = json.loads(aws.get_bytes(bucket.name, manifest_key(folder.digest)) or b"")
    assert manifest["files"].keys() == folder.files.keys()
    before = faulty.count("PUT")
    assert upload_folder(aws, bucket.name, hash_folder(data)).sent == 0
    assert faulty.count("PUT") == before


@pytest.mark.slow
def test_an_upload_that_was_interrupted_goes_on(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, data: Path
) -> None:
    folder = hash_folder(data)

    def refuse_two(request: object) -> FakeResponse | None:
        path = request.path  # type: ignore[attr-defined]
        return xml_error("AccessDenied", status=403) if path.endswith("/two") else None

    faulty.fault("PUT", refuse_two, times=None)
    with pytest.raises(AwsRefused, match="/two: AccessDenied"):
        upload_folder(aws, bucket.name, folder)
    assert manifest_key(folder.digest) not in keys(bucket)
    faulty._faults.clear()
    arrived = len(keys(bucket))
    assert upload_folder(aws, bucket.name, folder).sent == 1000 * (4 - arrived)
    assert len(keys(bucket)) == 5


@pytest.mark.slow
def test_a_file_removed_from_the_bucket_is_sent_again(aws: Aws, bucket: Bucket, data: Path) -> None:
    folder = hash_folder(data)
    sent = upload_folder(aws, bucket.name, folder)
    aws.delete_objects(bucket.name, [f"{sent.key}one"])
    assert upload_folder(aws, bucket.name, folder).sent == 1000


@pytest.mark.slow
def test_a_stranger_among_the_files_is_not_passed_to_a_job(aws: Aws, bucket: Bucket, data: Path) -> None:
    folder = hash_folder(data)
    sent = upload_folder(aws, bucket.name, folder)
    bucket.put(**{f"{sent.key}stranger": b"x"})
    with pytest.raises(GPUproofError, match="stranger") as caught:
        upload_folder(aws, bucket.name, folder)
    assert f"aws s3 rm --recursive {sent.uri}" in str(caught.value.remedy)


@pytest.mark.slow
def test_large_files_of_a_folder_go_in_parts(faulty: FaultyAws, aws: Aws, bucket: Bucket, data: Path) -> None:
    (data / "big").write_bytes(os.urandom(PART + 1))
    folder = hash_folder(data)
    sent = upload_folder(aws, bucket.name, folder)
    assert sent.sent == PART + 1 + 4000
    assert any("uploadId=" in request.path for request in faulty.requests)
    assert aws.get_bytes(bucket.name, f"{sent.key}big") == (data / "big").read_bytes()


def test_what_a_killed_packer_left_in_the_cache_is_removed_after_a_day(project: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "cache" / "tmpold", tmp_path / "cache" / "tmpnew"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "source.tar.gz").touch()
    os.utime(old, (0, 0))
    packed = upload_plan._packed(collect(project, "train.py"), tmp_path / "cache")
    assert packed.path.exists()
    assert (old.exists(), new.exists()) == (False, True)


def test_a_large_source_is_uploaded_although_it_is_packed_again_meanwhile(
    aws: Aws, bucket: Bucket, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text("print('hello')")
    (source / "noise.bin").write_bytes(os.urandom(PART + 1))
    tree, cache = collect(source, "train.py"), tmp_path / "cache"
    first = upload_plan.plan_uploads(tree, {}, {}, cache).source
    assert first.size > PART
    second = upload_plan.plan_uploads(tree, {}, {}, cache).source
    assert (second.path, second.stamp) == (first.path, first.stamp)
    upload_object(aws, bucket.name, first)
    assert keys(bucket) == [f"gpuproof/objects/{first.digest}"]


def test_a_packed_source_that_nothing_has_used_for_a_day_is_removed(tmp_path: Path) -> None:
    cache, source = tmp_path / "cache", tmp_path / "source"
    source.mkdir()

    def packed(content: str) -> Path:
        (source / "train.py").write_text(content)
        return upload_plan.plan_uploads(collect(source, "train.py"), {}, {}, cache).source.path

    first, second = packed("1"), packed("2")
    assert first.exists()
    os.utime(first, (time.time() - 2 * 86_400,) * 2)
    assert packed("3").exists()
    assert (first.exists(), second.exists()) == (False, True)
