"""Real hosts on one machine: network namespaces `algo-1 … algo-n` that are joined by a bridge.

    with HostNetwork.create(["algo-1", "algo-2"], Egress.from_environment(os.environ, ports=[4566])) as network:
        network.addresses            # {"algo-1": "10.77.0.1", "algo-2": "10.77.0.2"}
        network.environment          # proxy variables for the programs on the hosts; they reach the network through them
        network.entry("algo-2")      # a HostEntry: for `enter_host` in a process with one thread, before it executes a program
        network.join("algo-2")       # the same in a forked child of this process

`create` raises `NetworkUnavailable` with the reason where the machine allows no such network (macOS, containers). Without egress
the hosts reach each other only. `gpuproof-agent.pyz --in-host ENTRY COMMAND …` executes a command on a host; ENTRY is
`network.entry(host).to_json()`. Works as root and as a plain user, and everything ends with the process that created it.
The bridge is in a namespace of its own, so the machine's network is not changed. `hosts_file.py` has the private `/etc/hosts`, which runs
of one host have too.
"""

from gpuproof.agent.hosts.egress import Egress, Forward
from gpuproof.agent.hosts.host_entry import HostEntry, enter_host
from gpuproof.agent.hosts.network import MAX_HOSTS, HostNetwork, NetworkUnavailable

__all__ = ["MAX_HOSTS", "Egress", "Forward", "HostEntry", "HostNetwork", "NetworkUnavailable", "enter_host"]
