"""The hosts of a job on several instances: which of them this one is, and how it finds the others.

All instances of a launch get the same user data. EC2 numbers them (`ami-launch-index`), and each writes its address to S3.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, Wait
from gpuproof.agent.ec2_host.watch import Ended, Event, Reason
from gpuproof.agent.isolation.hosts_file import HOSTS_FILE, hosts_file, read_hosts_file
from gpuproof.agent.state import STOPPED

ADDRESS, END = "address.json", "end.json"
"""What a host writes when it is ready, and in the end, below `hosts/HOST/` of the run."""

_LIMIT_S = 600.0
_PAUSE_S = 2.0
_METADATA_ATTEMPTS = 30


class HostsMissing(Exception):
    """The job cannot start because other hosts are not there; the message names them."""


def named_host(
    parameters: HostParameters, metadata: Metadata, sleep: Callable[[float], None] = time.sleep
) -> HostParameters:
    """The parameters with the name of this host: `algo-1` is the first instance of the launch.

    Args:
        sleep: waits for a number of seconds.

    Raises:
        HostsMissing: the metadata service does not say which host this is.
    """
    if len(parameters.hosts) == 1:
        return parameters
    for _ in range(_METADATA_ATTEMPTS):
        index = metadata.get("meta-data/ami-launch-index") or ""
        if index.isdigit() and int(index) < len(parameters.hosts):
            return replace(parameters, host=parameters.hosts[int(index)])
        sleep(_PAUSE_S)
    raise HostsMissing("the metadata service does not say which of the job's hosts this instance is")


class ClusterHosts:
    """The other hosts of a job.

    Args:
        wait: called between looks at S3.
        clock: seconds, of a monotonic clock.
    """

    def __init__(
        self,
        aws: AwsCli,
        parameters: HostParameters,
        metadata: Metadata,
        folder: Path,
        wait: Wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._aws = aws
        self._parameters = parameters
        self._metadata = metadata
        self._folder = folder
        self._wait = wait
        self._clock = clock
        self._prefix = f"s3://{parameters.bucket}/{parameters.prefix}hosts/"

    def meet(self, file: Path = Path(HOSTS_FILE)) -> None:
        """Report that this host is ready, wait until all are, and write their names into `/etc/hosts`.

        Args:
            file: `/etc/hosts`.

        Raises:
            HostsMissing: a host has ended, or is not ready after ten minutes.
            Ended: the job was stopped.
            AwsFailed: S3 cannot be reached.
            OSError: the names cannot be written.
        """
        address = self._metadata.get("meta-data/local-ipv4")
        if not address:
            raise HostsMissing("the metadata service does not know the address of this instance")
        content = json.dumps({"version": 1, "address": address}).encode()
        own = f"{self._prefix}{self._parameters.host}/{ADDRESS}"
        self._aws.run("s3", "cp", "--only-show-errors", "-", own, content=content)
        addresses = self._wait_for_all()
        # In place: the file may be a mount point. The instance has no use for it after this job.
        file.write_text(hosts_file(addresses, read_hosts_file()), encoding="utf-8", errors="surrogateescape")

    def _wait_for_all(self) -> dict[str, str]:
        """The addresses of all hosts by name."""
        end = self._clock() + _LIMIT_S
        words = ["s3", "sync", "--only-show-errors", "--exclude", "*"]
        for name in (ADDRESS, END):
            words += ["--include", f"*/{name}"]
        while True:
            self._aws.run(*words, self._prefix, str(self._folder))
            for host in self._parameters.hosts:
                if found := self._read(host, END):
                    _raise_for(host, found)
            addresses = {host: self._read(host, ADDRESS).get("address") for host in self._parameters.hosts}
            missing = [host for host, address in addresses.items() if not address]
            if not missing:
                return {host: str(address) for host, address in addresses.items()}
            if self._clock() >= end:
                raise HostsMissing(f"{', '.join(missing)} did not get ready within {_LIMIT_S:.0f} s")
            self._wait(_PAUSE_S)

    def _read(self, host: str, name: str) -> dict[str, Any]:
        try:
            document = json.loads((self._folder / host / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


def _raise_for(host: str, end: dict[str, Any]) -> None:
    """End like a host that has ended before the job was started."""
    text = f"{host} ended before the job was started: {end.get('failure_reason') or 'it gave no reason'}"
    if end.get("status") == STOPPED:
        raise Ended(Event(Reason.INTERRUPTED if end.get("interrupted") else Reason.STOP, text))
    raise HostsMissing(text)
