"""The reports of a job's hosts in a folder and in S3, and the verdict that they add up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.util.launcher import Member
from gpuproof.watch.group.publication import Publisher, groups, read_job
from gpuproof.watch.group.s3_client import S3Client
from gpuproof.watch.group.store import FolderStore, StoreError, open_store
from gpuproof.watch.report import Instance, WatchReport
from support.s3_server import CREDENTIALS, BadServer, MotoServer, Reply, listing, refusal
from support.watch_reports import host_report

HOSTS = ("n1", "n2")
MEMBERS = {host: Member("slurm-17.0", host, "Slurm", 2, 4, 2, HOSTS) for host in HOSTS}
RANKS = {host: Member("mpirun-9", host, "Open MPI", count, 3) for host, count in {"a": 2, "b": 1}.items()}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """Where the reports go, and the variables with which that can be reached."""
    if request.param == "folder":
        return str(tmp_path / "reports"), {}
    server: MotoServer = request.getfixturevalue("moto")
    environ = {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": server.url}
    return f"s3://{server.bucket().name}/a prefix+1", environ


def report(host: str, worked: bool = True, **facts: Any) -> WatchReport:
    """The report of a host with two GPUs, and more facts in it."""
    return replace(host_report(host, worked), **facts)


Place = tuple[str, Mapping[str, str]]


def publishers(members: Mapping[str, Member], place: Place, started: float = 1000.0) -> dict[str, Publisher]:
    """One for each host; all have begun."""
    found = {host: Publisher(member, *place, started) for host, member in members.items()}
    for publisher in found.values():
        publisher.announce()
    return found


@pytest.mark.parametrize("members", [MEMBERS, RANKS], ids=["known hosts", "known processes"])
def test_the_last_host_finds_the_reports_of_all(place: Place, members: Mapping[str, Member]):
    hosts = publishers(members, place)
    first, last = hosts
    assert hosts[first].publish(report(first)) == hosts[first].publish(report(first))
    assert hosts[first].publish(report(first)).job is None
    job = hosts[last].publish(report(last, worked=False)).job
    assert job is not None
    assert (job.hosts, job.group) == (2, members[first].group)
    assert (job.verdict["gpus_working"], job.verdict["gpus_expected"]) == (2, 4)
    assert job.requirement_met is False


def test_hosts_that_end_at_the_same_time_do_not_both_print_the_verdict(place: Place):
    hosts = publishers(MEMBERS, place)
    for host, publisher in hosts.items():
        publisher.write(report(host))  # both have written before either has read
    assert [publisher.publish(report(host)).job is None for host, publisher in hosts.items()] == [False, True]


def test_reports_of_an_earlier_attempt_are_not_taken_for_this_ones(place: Place):
    for host, publisher in publishers(MEMBERS, place).items():
        publisher.publish(report(host))
    again = publishers(MEMBERS, place, started=2000.0)
    assert again["n1"].publish(report("n1")).job is None
    assert again["n2"].publish(report("n2")).job is not None


def test_hosts_without_a_report_are_known_by_name(place: Place):
    Publisher(replace(MEMBERS["n1"], host_names=("n1", "n2", "n3"), hosts=3, size=6), *place, 0.0).publish(
        report("n1")
    )
    Publisher(MEMBERS["n2"], *place, 0.0).announce()
    store = open_store(f"{place[0]}/slurm-17.0", place[1])
    job = read_job(store)
    assert (job.running, job.missing, job.is_complete) == (("n2",), ("n3",), False)
    assert job.report().requirement_met is None
    assert groups(open_store(place[0], place[1])) == ["slurm-17.0"]


def test_processes_that_are_missing_are_a_host_without_a_name(place: Place):
    Publisher(RANKS["a"], *place, 0.0).publish(report("a"))
    job = read_job(open_store(f"{place[0]}/mpirun-9", place[1]))
    assert (job.missing, job.is_complete) == (("missing-1",), False)


def test_without_the_number_of_hosts_none_is_the_last_one(tmp_path: Path):
    pod = Member("job-train", "train-0", "Kubernetes", 1)
    published = Publisher(pod, str(tmp_path), {}, 0.0).publish(report("train-0"))
    assert published.job is None
    assert published.notes[0].endswith(f"add --hosts N, or type gpuproof verdict {tmp_path}/job-train")


def test_a_job_costs_what_its_hosts_cost_and_failed_where_one_failed(tmp_path: Path):
    hosts = publishers(MEMBERS, (str(tmp_path), {}))
    instance = Instance("p4d.24xlarge", "us-east-1", "on-demand")
    hosts["n1"].publish(report("n1", cost_usd=1.5, instance=instance))
    job = hosts["n2"].publish(report("n2", cost_usd=1.0, instance=instance, exit_code=7, started=1030.0)).job
    assert job is not None
    assert (job.cost_usd, job.instance, job.exit_code, job.seconds) == (2.5, instance, 7, 90.0)


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path):
    (tmp_path / "file").touch()
    published = Publisher(MEMBERS["n1"], str(tmp_path / "file"), {}, 0.0).publish(report("n1"))
    assert published.job is None
    assert "could not be written: Not a directory" in published.notes[0]


def publish_to(answer: Callable[[str, Mapping[str, str], Mapping[str, str]], Reply], **variables: str) -> str:
    """The note after publishing to a server that answers like this."""
    server = BadServer(answer)
    environ = {**CREDENTIALS, "AWS_ENDPOINT_URL": server.url, **variables}
    try:
        (note,) = Publisher(MEMBERS["n1"], "s3://bucket/jobs", environ, 0.0).publish(report("n1")).notes
    finally:
        server.stop()
    return note


def test_credentials_without_permission_are_a_note_that_names_the_permission():
    def answer(key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        return refusal("AccessDenied", 403)

    assert publish_to(answer) == (
        "The verdicts of the hosts are not merged: cannot write s3://bucket/jobs/slurm-17.0/host-n1.json: "
        "S3 answered AccessDenied; the credentials need s3:PutObject."
    )


def test_a_host_without_credentials_says_so():
    def answer(key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        return Reply()

    assert "this host has no AWS credentials" in publish_to(answer, AWS_ACCESS_KEY_ID="")


@pytest.mark.slow
def test_a_bucket_that_does_not_exist_is_named_by_its_code(moto: MotoServer):
    store = open_store("s3://no-such-bucket/jobs", {**CREDENTIALS, "AWS_ENDPOINT_URL": moto.url})
    with pytest.raises(StoreError, match="S3 answered NoSuchBucket"):
        store.write("a", b"")


def test_a_listing_of_several_pages_is_read_to_its_end():
    def answer(key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        if "continuation-token" in query:
            return listing({f"{query['prefix']}second-{query['continuation-token']}": b""})
        page = listing({f"{query['prefix']}first": b""})
        token = b"<NextContinuationToken>a+b/c=</NextContinuationToken></ListBucketResult>"
        return replace(page, body=page.body.replace(b"</ListBucketResult>", token))

    server = BadServer(answer)
    store = open_store("s3://bucket/jobs", {**CREDENTIALS, "AWS_ENDPOINT_URL": server.url})
    try:
        assert store.names() == ["first", "second-a+b/c="]
    finally:
        server.stop()


def test_a_server_that_is_busy_is_asked_again():
    answers = iter([refusal("SlowDown", 503), listing({"jobs/a": b""})])
    server = BadServer(lambda key, query, headers: next(answers))
    client = S3Client({**CREDENTIALS, "AWS_ENDPOINT_URL": server.url}, sleep=lambda _: None)
    try:
        assert open_store("s3://bucket/jobs", {}, client).names() == ["a"]
    finally:
        server.stop()


def test_a_bucket_of_another_region_is_asked_there():
    def answer(key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        if "/eu-west-1/s3/" in headers["Authorization"]:
            return listing({})
        return replace(
            refusal("AuthorizationHeaderMalformed", 400), headers={"x-amz-bucket-region": "eu-west-1"}
        )

    server = BadServer(answer)
    try:
        assert open_store("s3://bucket", {**CREDENTIALS, "AWS_ENDPOINT_URL": server.url}).names() == []
    finally:
        server.stop()


def test_what_is_no_report_is_left_out(tmp_path: Path):
    publishers({"n1": MEMBERS["n1"]}, (str(tmp_path), {}))
    folder = tmp_path / "slurm-17.0"
    (folder / "host-other.json").write_text("[]")
    (folder / "notes.txt").write_text("")
    assert [document.host for document in read_job(FolderStore(folder)).documents] == ["n1"]
    assert json.loads((folder / "host-n1.json").read_text())["kind"] == "watch-started"
