"""Inputs on S3, downloaded over HTTP."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.backends.s3_inputs import cache as s3_cache
from gpuproof.backends.s3_inputs import download as downloading
from gpuproof.backends.s3_inputs.download import DownloadedInput, download, download_all
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.errors import GPUproofError, InvalidJob
from support.s3_server import Answer, Bucket, Reply, listing, refusal

pytestmark = pytest.mark.slow


class RecordingProgress(SilentProgress):
    """Records transfers and reports."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.reports: list[tuple[str, str]] = []

    def transfer(self, text: str, done: int, total: int) -> None:
        self.steps.append((done, total))

    def report(self, label: str, text: str) -> None:
        self.reports.append((label, text))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def downloaded(
    bucket: Bucket, prefix: str, cache: Path, progress: SubmitProgress | None = None
) -> DownloadedInput:
    return download(S3Prefix(bucket.name, prefix), Aws(), cache, progress or SilentProgress())


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def leftovers(cache: Path) -> list[Path]:
    return list((cache / "s3" / "partial").iterdir())


def test_a_prefix_becomes_a_folder(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a.csv": b"1,2", "data/deep/b.csv": b"3", "data/empty": b"", "other": b"x"})
    result = downloaded(bucket, "data/", cache)
    assert content(result.folder) == {"a.csv": b"1,2", "deep/b.csv": b"3", "empty": b""}
    assert (result.files, result.total_bytes, result.downloaded_bytes) == (3, 4, 4)
    assert leftovers(cache) == []


def test_a_second_time_downloads_nothing(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    first = downloaded(bucket, "data/", cache)
    assert bucket.downloads() == ["data/a", "data/b"]
    second = downloaded(bucket, "data/", cache)
    assert bucket.downloads() == []
    assert second.folder == first.folder
    assert second.downloaded_bytes == 0


def test_only_what_changed_is_downloaded_and_a_run_keeps_what_it_began_with(
    bucket: Bucket, cache: Path
) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    first = downloaded(bucket, "data/", cache)
    bucket.downloads()
    bucket.put(**{"data/b": b"changed", "data/c": b"new"})
    second = downloaded(bucket, "data/", cache)
    assert bucket.downloads() == ["data/b", "data/c"]
    assert content(second.folder) == {"a": b"1", "b": b"changed", "c": b"new"}
    assert content(first.folder) == {"a": b"1", "b": b"2"}


def test_an_object_that_was_removed_is_in_the_folder_no_more(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    downloaded(bucket, "data/", cache)
    bucket.client.delete_object(Bucket=bucket.name, Key="data/b")
    assert content(downloaded(bucket, "data/", cache).folder) == {"a": b"1"}


def test_one_object_becomes_a_folder_with_that_file(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/rows.csv": b"1"})
    assert content(downloaded(bucket, "data/rows.csv", cache).folder) == {"rows.csv": b"1"}


def test_channels_that_share_objects_share_downloads(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    channels = {name: S3Prefix(bucket.name, prefix) for name, prefix in [("all", "data/"), ("one", "data/a")]}
    results = download_all(channels, Aws(), cache, SilentProgress())
    assert bucket.downloads() == ["data/a", "data/b"]
    assert {name: sorted(content(one.folder)) for name, one in results.items()} == {
        "all": ["a", "b"],
        "one": ["a"],
    }


def test_a_large_object_comes_in_parts_and_is_whole(
    bucket: Bucket, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloading, "_PART", 1000)
    body = os.urandom(10_500)
    bucket.put(big=body)
    assert content(downloaded(bucket, "big", cache).folder) == {"big": body}
    assert bucket.downloads() == ["big"] * 11


def test_hundreds_of_objects_all_arrive(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{f"data/{number % 7}/{number}": str(number).encode() for number in range(300)})
    result = downloaded(bucket, "data/", cache)
    assert content(result.folder) == {f"{n % 7}/{n}": str(n).encode() for n in range(300)}


def test_progress_ends_at_the_bytes_that_were_missing(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a": b"x" * 1000})
    downloaded(bucket, "data/", cache)
    bucket.put(**{"data/b": b"x" * 500})
    progress = RecordingProgress()
    result = downloaded(bucket, "data/", cache, progress)
    assert progress.steps[0] == (0, 500)
    assert progress.steps[-1] == (500, 500)
    assert result.downloaded_bytes == 500
    ((label, text),) = progress.reports
    assert label == "download"
    assert text.endswith("500 B downloaded")


def test_files_keep_the_time_of_their_objects(bucket: Bucket, cache: Path) -> None:
    bucket.put(rows=b"1")
    (item,) = Aws().list_objects(bucket.name, "")
    assert (downloaded(bucket, "rows", cache).folder / "rows").stat().st_mtime == int(item.modified)


def test_a_file_that_a_script_wrote_to_is_downloaded_again(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    first = downloaded(bucket, "data/", cache)
    bucket.downloads()
    spoilt = first.folder / "a"
    spoilt.chmod(0o644)
    spoilt.write_bytes(b"9")
    assert content(downloaded(bucket, "data/", cache).folder) == {"a": b"1", "b": b"2"}
    assert bucket.downloads() == ["data/a"]


def test_a_file_that_was_deleted_from_the_folder_comes_back_without_a_download(
    bucket: Bucket, cache: Path
) -> None:
    bucket.put(**{"data/a": b"1", "data/b": b"2"})
    (downloaded(bucket, "data/", cache).folder / "a").unlink()
    bucket.downloads()
    assert content(downloaded(bucket, "data/", cache).folder) == {"a": b"1", "b": b"2"}
    assert bucket.downloads() == []


def test_two_runs_that_begin_at_once_get_the_same(bucket: Bucket, cache: Path) -> None:
    bucket.put(**{f"data/{number}": b"x" * number for number in range(40)})
    results: list[DownloadedInput] = []
    threads = [
        threading.Thread(target=lambda: results.append(downloaded(bucket, "data/", cache))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.folder for result in results}) == 1
    assert len(content(results[0].folder)) == 40
    assert leftovers(cache) == []


def test_without_hard_links_files_are_copied(
    bucket: Bucket, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    bucket.put(rows=b"1")
    assert content(downloaded(bucket, "rows", cache).folder) == {"rows": b"1"}
    bucket.downloads()
    downloaded(bucket, "rows", cache)
    assert bucket.downloads() == []


def test_keys_that_lead_out_leave_the_machine_untouched(bucket: Bucket, cache: Path, tmp_path: Path) -> None:
    bucket.put(**{"data/a": b"1"})
    bucket.put_weird("data/../../../../escaped", b"bad")
    with pytest.raises(InvalidJob, match="escaped"):
        downloaded(bucket, "data/", cache)
    assert bucket.downloads() == []
    assert list(tmp_path.rglob("*")) == []


def test_after_a_refusal_midway_nothing_half_is_left_and_the_next_time_works(
    answering: Callable[[Answer], None], cache: Path
) -> None:
    objects = {"data/a": b"x" * 10, "data/b": b"y" * 20}
    asked: list[str] = []
    forbidden = {"data/b"}

    def answer(key: str, *_: object) -> Reply:
        asked.append(key)
        if not key:
            return listing(objects)
        return refusal("AccessDenied", 403) if key in forbidden else Reply(200, objects[key])

    answering(answer)
    source = S3Prefix("rows", "data/")
    with pytest.raises(AwsRefused, match=r"s3://rows/data/b: AccessDenied"):
        download(source, Aws(), cache, SilentProgress())
    assert leftovers(cache) == []
    assert list((cache / "s3" / "channels").iterdir()) == []
    forbidden.clear()
    asked.clear()
    assert content(download(source, Aws(), cache, SilentProgress()).folder) == {
        "a": b"x" * 10,
        "b": b"y" * 20,
    }
    assert "data/b" in asked


def test_what_came_twice_after_a_break_is_counted_once(
    answering: Callable[[Answer], None], cache: Path
) -> None:
    body = b"x" * 400_000
    sends = iter([300_000, None])
    answering(lambda key, *_: Reply(200, body, sends=next(sends)) if key else listing({"data/a": body}))
    progress = RecordingProgress()
    download(S3Prefix("rows", "data/"), Aws(sleep=lambda _: None), cache, progress)
    assert progress.steps[-1] == (400_000, 400_000)
    assert max(done for done, _ in progress.steps) <= 400_000


def test_an_interrupt_does_not_wait_for_a_connection_that_hangs(
    answering: Callable[[Answer], None], cache: Path
) -> None:
    hang = threading.Event()

    def answer(key: str, *_: object) -> Reply:
        if key:
            hang.wait(600)
        return Reply(200, b"x") if key else listing({"data/a": b"x"})

    class Interrupting(SilentProgress):
        def transfer(self, *_: object) -> None:
            raise KeyboardInterrupt

    answering(answer)
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            download(S3Prefix("rows", "data/"), Aws(), cache, Interrupting())
        assert time.monotonic() - began < 300
    finally:
        hang.set()


def test_a_disk_without_room_is_found_before_the_download(
    answering: Callable[[Answer], None], cache: Path
) -> None:
    huge = 2**60
    asked: list[str] = []

    def answer(key: str, *_: object) -> Reply:
        asked.append(key)
        reply = listing({"data/a": b""})
        reply.body = reply.body.replace(b"<Size>0<", f"<Size>{huge}<".encode())
        return reply

    answering(answer)
    with pytest.raises(GPUproofError, match=r"needs another 1048576\.0 TiB") as caught:
        download(S3Prefix("rows", "data/"), Aws(), cache, SilentProgress())
    assert asked == [""]
    assert "GPUPROOF_CACHE_DIR" in str(caught.value.remedy)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_fills_up_meanwhile_leaves_nothing_half(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        bucket.put(**{"data/a": b"x" * 100_000, "data/b": b"y" * 3_000_000})
        # As if another process filled the disk between the check and the write.
        roomy = shutil.disk_usage("/")._replace(free=2**40)
        monkeypatch.setattr(downloading.shutil, "disk_usage", lambda _: roomy)
        with pytest.raises(GPUproofError, match="The disk is full"):
            downloaded(bucket, "data/", disk)
        assert leftovers(disk) == []
        assert list((disk / "s3" / "channels").iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_what_a_killed_download_left_is_swept_away_and_what_others_do_is_not(
    bucket: Bucket, cache: Path
) -> None:
    partial = cache / "s3" / "partial"
    partial.mkdir(parents=True)
    old, young, folder = partial / "old", partial / "young", partial / "folder"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    folder.mkdir()
    long_ago = young.stat().st_mtime - 2 * s3_cache._OLD_SECONDS
    for path in (old, folder):
        os.utime(path, (long_ago, long_ago))
    bucket.put(rows=b"1")
    downloaded(bucket, "rows", cache)
    assert leftovers(cache) == [young]
