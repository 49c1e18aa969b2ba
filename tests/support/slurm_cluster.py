"""Slurm on this machine: a controller and nodes of its own, on free ports, in a folder of its own.

    with slurm_cluster(nodes=("n1", "n2"), gpus_per_node=2) as cluster:
        done = cluster.run("srun", "-N2", "--ntasks-per-node=2", "hostname")

The programs are the machine's if slurmctld is in its path, else those of Debian's packages, which are not installed.
Jobs run as the current user. The nodes share the machine, and so the GPUs that a test shows; CUDA_VISIBLE_DEVICES of the
tasks says which are the node's: n1 has 0 and 1, n2 has 2 and 3.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.debian_packages import PackagesUnavailable, library_folders, unpack
from support.ports import free_ports

_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge")
_LIMIT_S = 600.0


@dataclass(frozen=True)
class SlurmPrograms:
    """Where Slurm's programs are.

    Args:
        plugins: folder of its plugins; `None` for the one it was built with.
        step_daemon: what runs a job's tasks; `None` for the one it was built with.
        variables: with which its programs find their libraries and each other.
    """

    controller: str
    node: str
    munge: str
    plugins: Path | None = None
    step_daemon: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def find_programs() -> SlurmPrograms | PackagesUnavailable:
    """The machine's Slurm, or that of the distribution's packages; why neither is there."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    controller, node, munge = (shutil.which(name, path=path) for name in ("slurmctld", "slurmd", "munged"))
    if controller and node and munge and shutil.which("srun"):
        return SlurmPrograms(controller, node, munge)
    try:
        root = unpack(*_PACKAGES)
    except PackagesUnavailable as reason:
        return reason
    programs = root / "usr" / "sbin"
    plugins = next(path / "slurm-wlm" for path in library_folders(root) if (path / "slurm-wlm").is_dir())
    libraries = [*library_folders(root), plugins]
    return SlurmPrograms(
        controller=str(programs / "slurmctld-wlm"),
        node=str(programs / "slurmd-wlm"),
        munge=str(programs / "munged"),
        plugins=plugins,
        step_daemon=str(programs / "slurmstepd-wlm"),
        variables={
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
            "PATH": f"{root / 'usr' / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        },
    )


@dataclass
class SlurmCluster:
    """A controller and its nodes, running.

    Args:
        environment: with which Slurm's programs talk to this controller.
    """

    folder: Path
    nodes: Sequence[str]
    environment: dict[str, str]

    def variables(self, **more: str) -> dict[str, str]:
        """The environment with more variables; those for the dynamic linker are joined."""
        joined = {**self.environment, **more}
        if "LD_LIBRARY_PATH" in more and "LD_LIBRARY_PATH" in self.environment:
            joined["LD_LIBRARY_PATH"] = f"{more['LD_LIBRARY_PATH']}:{self.environment['LD_LIBRARY_PATH']}"
        return joined

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the cluster's user to its end."""
        return subprocess.run(
            command,
            env=self.variables(**variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command of the cluster's user, such as `srun`, with pipes."""
        return subprocess.Popen(
            command,
            env=self.variables(**variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_job(self, *words: str, **variables: str) -> str:
        """Submit a job, wait for its end, and return its state: `COMPLETED` if its script ended with 0.

        Args:
            words: options of `sbatch`, and the script.
        """
        submitted = self.run("sbatch", "--parsable", *words, **variables)
        assert submitted.returncode == 0, submitted.stderr
        job = submitted.stdout.strip()
        running = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
        until(lambda: self.job_state(job) not in running, "the end of the job", _LIMIT_S)
        return self.job_state(job)

    def job_state(self, job: str) -> str:
        """The state of a job, such as `RUNNING`; empty if the controller no longer knows it."""
        words = self.run("scontrol", "--oneliner", "show", "job", job).stdout.split()
        return next((word.partition("=")[2] for word in words if word.startswith("JobState=")), "")

    def logs(self) -> str:
        """The newest lines of all daemons' logs."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


@contextlib.contextmanager
def slurm_cluster(nodes: Sequence[str] = ("n1", "n2"), gpus_per_node: int = 2) -> Generator[SlurmCluster]:
    """Start a cluster, and end it with all that it runs; skips the test where there is no Slurm."""
    programs = find_programs()
    if isinstance(programs, PackagesUnavailable):
        pytest.skip(f"no slurmctld in PATH, and {programs}")
    # Munge's socket has at most 108 bytes, and each folder above it must be the user's own or root's.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        cluster = _start(programs, folder, nodes, gpus_per_node, started)
        try:
            yield cluster
        finally:
            _end_jobs(cluster)
    finally:
        _end(started)
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    programs: SlurmPrograms,
    folder: Path,
    nodes: Sequence[str],
    gpus_per_node: int,
    started: list[subprocess.Popen[bytes]],
) -> SlurmCluster:
    folder.chmod(0o755)
    config = folder / "slurm.conf"
    config.write_text(_config(programs, folder, nodes))
    prolog = folder / "task-prolog.sh"
    prolog.write_text(_task_prolog(nodes, gpus_per_node))
    prolog.chmod(0o755)
    environment = {**os.environ, **programs.variables, "SLURM_CONF": str(config)}
    cluster = SlurmCluster(folder, nodes, environment)

    def launch(name: str, *command: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )

    key = folder / "munge" / "key"
    key.parent.mkdir(mode=0o755)
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    socket = folder / "munge" / "s"
    files = [f"--{name}-file={folder / 'munge' / name}" for name in ("key", "pid", "log", "seed")]
    launch("munged", programs.munge, "--foreground", f"--socket={socket}", *files)
    until(socket.exists, "munged's start")
    launch("slurmctld", programs.controller, "-D", "-f", str(config))
    step_daemon = ["-d", programs.step_daemon] if programs.step_daemon else []
    for node in nodes:
        launch(f"slurmd-{node}", programs.node, "-D", "-N", node, "-f", str(config), *step_daemon)
    until(lambda: _are_ready(cluster, started), f"the start of Slurm\n{cluster.logs()}")
    return cluster


def _are_ready(cluster: SlurmCluster, started: Sequence[subprocess.Popen[bytes]]) -> bool:
    if any(daemon.poll() is not None for daemon in started):
        pytest.fail(f"a daemon of Slurm has ended\n{cluster.logs()}")
    shown = cluster.run("sinfo", "--noheader", "--Node", "--format=%t")
    return shown.stdout.split() == ["idle"] * len(cluster.nodes)


def _config(programs: SlurmPrograms, folder: Path, nodes: Sequence[str]) -> str:
    controller, *ports = free_ports(1 + len(nodes))
    user = getpass.getuser()
    lines = [
        # Other clusters may run on this machine meanwhile.
        f"ClusterName={folder.name}",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={controller}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder / 'munge' / 's'}",
        # Nothing listens but on loopback.
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        f"StateSaveLocation={folder / 'state'}",
        f"SlurmdSpoolDir={folder / 'spool-%n'}",
        f"SlurmctldPidFile={folder / 'slurmctld.pid'}",
        f"SlurmdPidFile={folder / 'slurmd-%n.pid'}",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "MpiDefault=none",
        "ReturnToService=2",
        "MailProg=/bin/true",
        # More processors and memory than this machine may have.
        "SlurmdParameters=config_overrides",
        "KillWait=30",
        f"TaskProlog={folder / 'task-prolog.sh'}",
    ]
    if programs.plugins is not None:
        lines.append(f"PluginDir={programs.plugins}")
    for node, port in zip(nodes, ports, strict=True):
        (folder / f"spool-{node}").mkdir()
        lines.append(
            f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=1000"
        )
    (folder / "state").mkdir()
    lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def _task_prolog(nodes: Sequence[str], gpus_per_node: int) -> str:
    """A script that tells each task which GPUs its node has: each line of its output is a variable for the task."""
    lines = ["#!/bin/sh", 'case "$SLURMD_NODENAME" in']
    for position, node in enumerate(nodes):
        indices = range(position * gpus_per_node, (position + 1) * gpus_per_node)
        lines.append(f"{node}) echo export CUDA_VISIBLE_DEVICES={','.join(map(str, indices))} ;;")
    return "\n".join([*lines, "esac", ""])


def _end_jobs(cluster: SlurmCluster) -> None:
    """End what a test that failed has left; the processes of a step outlive the node's daemon."""
    if cluster.run("squeue", "--noheader").stdout.strip():
        cluster.run("scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}")
        cluster.run("scancel", f"--user={getpass.getuser()}")
        until(lambda: not cluster.run("squeue", "--noheader").stdout.strip(), "the end of all jobs")


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the daemons, last first: the nodes end their jobs' steps before the controller is gone."""
    for daemon in reversed(started):
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
