"""The content of a private `/etc/hosts`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.agent.isolation.hosts_file import hosts_file


def test_the_machines_own_entries_are_kept_and_the_hosts_names_are_replaced() -> None:
    machine = "# comment\n127.0.0.1 localhost\n::1 localhost ip6-localhost # six\n10.1.1.1 build algo-1\n10.9.9.9 algo-2\n"
    assert hosts_file({"algo-1": "10.77.0.1", "algo-2": "10.77.0.2"}, machine).splitlines() == [
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost",
        "10.1.1.1\tbuild",
        "10.77.0.1\talgo-1",
        "10.77.0.2\talgo-2",
    ]


def test_localhost_resolves_even_if_the_machine_has_no_hosts_file() -> None:
    assert hosts_file({"algo-1": "127.0.0.1"}, "") == "127.0.0.1\tlocalhost\n127.0.0.1\talgo-1\n"


@pytest.mark.slow
def test_covering_it_changes_nothing_for_other_processes_and_leaves_nothing() -> None:
    code = (
        "import os; from pathlib import Path; from gpuproof.agent.isolation.hosts_file import cover_hosts_file\n"
        "from gpuproof.util.sandbox import CLONE_NEWNS, make_mounts_private, unshare_as_user\n"
        "unshare_as_user(CLONE_NEWNS); make_mounts_private(); before = os.listdir('/etc')\n"
        "cover_hosts_file('127.0.0.1 algo-1'); print(Path('/etc/hosts').read_text(), os.listdir('/etc') == before)"
    )
    before = Path("/etc/hosts").read_text(), Path("/proc/self/mountinfo").read_text()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "unshare" in done.stderr:
        pytest.skip("this host allows no mount namespaces")
    assert done.stdout == "127.0.0.1 algo-1 True\n", done.stderr
    assert (Path("/etc/hosts").read_text(), Path("/proc/self/mountinfo").read_text()) == before
