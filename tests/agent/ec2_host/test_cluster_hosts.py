"""The hosts of one launch: their names, and how they find each other on S3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.setup.cluster_hosts import ClusterHosts, HostsMissing, named_host
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli
from gpuproof.agent.ec2_host.watch import Ended, Reason

Make = Callable[..., HostParameters]
HOSTS = ("algo-1", "algo-2", "algo-3")


class KnownMetadata(Metadata):
    """A metadata service that answers from the values of each path, one after the other."""

    def __init__(self, **values: list[str | None]) -> None:
        super().__init__()
        self._values = values

    def get(self, path: str) -> str | None:
        """The next value of the last part of the path."""
        values = self._values.get(path.rpartition("/")[2].replace("-", "_"), [None])
        return values.pop(0) if len(values) > 1 else values[0]


class S3:
    """The program `aws`, whose bucket is a folder: `sync` copies all of it, `cp -` writes a file."""

    def __init__(self, folder: Path, aws: Callable[[str], Path]) -> None:
        self.hosts = folder / "bucket/gpuproof/runs/run-1/hosts"
        self.hosts.mkdir(parents=True)
        self.calls = aws(
            f'bucket={folder}; for last in "$@"; do :; done\n'
            'case "$2" in\n'
            f'cp) to={folder}/${{last#s3://}}; mkdir -p "${{to%/*}}"; cat > "$to";;\n'
            f'sync) mkdir -p "$last"; cp -r {self.hosts}/. "$last";;\n'
            "esac"
        )

    def write(self, host: str, name: str, **values: object) -> None:
        """A host writes a file."""
        (self.hosts / host).mkdir(exist_ok=True)
        (self.hosts / host / name).write_text(json.dumps(values))


@pytest.fixture
def s3(tmp_path: Path, aws: Callable[[str], Path]) -> S3:
    return S3(tmp_path, aws)


def meet(
    parameters: HostParameters, tmp_path: Path, wait: Callable[[float], None], clock: Callable[[], float]
) -> str:
    """Meet the other hosts; returns the content of `/etc/hosts`."""
    file = tmp_path / "hosts-file"
    known = KnownMetadata(local_ipv4=["10.0.0.2"])
    hosts = ClusterHosts(AwsCli(lambda _: None, 0.0), parameters, known, tmp_path / "hosts", wait, clock)
    hosts.meet(file)
    return file.read_text()


def fail(_: float) -> None:
    raise AssertionError("it waits")


def test_a_host_has_the_name_of_its_number_in_the_launch(parameters: Make) -> None:
    slept: list[float] = []
    late = KnownMetadata(ami_launch_index=[None, "2"])
    assert named_host(parameters(hosts=HOSTS), late, slept.append).host == "algo-3"
    assert len(slept) == 1


def test_a_single_host_asks_for_nothing(parameters: Make) -> None:
    given = parameters()
    assert named_host(given, KnownMetadata(ami_launch_index=["1"]), fail) is given


@pytest.mark.parametrize("index", [None, "x", "3"])
def test_a_host_without_a_number_does_not_guess(parameters: Make, index: str | None) -> None:
    with pytest.raises(HostsMissing, match="which of the job's hosts"):
        named_host(parameters(hosts=HOSTS), KnownMetadata(ami_launch_index=[index]), lambda _: None)


def test_hosts_wait_for_each_other(parameters: Make, tmp_path: Path, s3: S3) -> None:
    s3.write("algo-1", "address.json", version=1, address="10.0.0.1")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        s3.write("algo-3", "address.json", version=1, address="10.0.0.3")

    content = meet(parameters(hosts=HOSTS, host="algo-2"), tmp_path, wait, lambda: 0.0)
    assert json.loads((s3.hosts / "algo-2/address.json").read_text())["address"] == "10.0.0.2"
    assert content.splitlines()[-3:] == [f"10.0.0.{number}\talgo-{number}" for number in (1, 2, 3)]
    assert len(waits) == 1


def test_hosts_that_do_not_come_are_named(parameters: Make, tmp_path: Path, s3: S3) -> None:
    now = iter(range(0, 10_000, 200))
    with pytest.raises(HostsMissing, match=r"^algo-1, algo-3 did not get ready within 600 s$"):
        meet(parameters(hosts=HOSTS, host="algo-2"), tmp_path, lambda _: None, lambda: float(next(now)))


def test_a_host_that_has_failed_is_not_waited_for(parameters: Make, tmp_path: Path, s3: S3) -> None:
    s3.write("algo-1", "address.json", version=1, address="10.0.0.1")
    s3.write("algo-3", "end.json", status="Failed", failure_reason="no driver")
    with pytest.raises(HostsMissing, match="algo-3 ended before the job was started: no driver"):
        meet(parameters(hosts=HOSTS, host="algo-2"), tmp_path, fail, lambda: 0.0)


@pytest.mark.parametrize(("interrupted", "reason"), [(True, Reason.INTERRUPTED), (False, Reason.STOP)])
def test_a_host_that_was_stopped_stops_the_others(
    parameters: Make, tmp_path: Path, s3: S3, interrupted: bool, reason: Reason
) -> None:
    s3.write("algo-1", "end.json", status="Stopped", interrupted=interrupted)
    with pytest.raises(Ended) as raised:
        meet(parameters(hosts=HOSTS, host="algo-2"), tmp_path, fail, lambda: 0.0)
    assert raised.value.event.reason is reason
