"""mpirun's command line: the options of SageMaker's training toolkit, for Open MPI 4 and 5.

Source: https://github.com/aws/sagemaker-training-toolkit/blob/master/src/sagemaker_training/mpi.py, and for the options against
errors in containers
https://github.com/aws/sagemaker-python-sdk/tree/master/sagemaker-train/src/sagemaker/train/container_drivers/distributed_drivers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuproof.agent.mpi.config import MpiConfig

_VERSION = re.compile(r"\(Open MPI\) (\d+)\.")
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def parse_version(text: str) -> int | None:
    """Open MPI's major version in the output of `mpirun --version`; `None` for another MPI."""
    found = _VERSION.search(text)
    return int(found[1]) if found else None


def mpirun_command(
    config: MpiConfig,
    version: int,
    environment: Mapping[str, str],
    script: Sequence[str],
    *,
    mpirun: str = "mpirun",
    agent: str = "",
) -> list[str]:
    """Return mpirun's command line.

    Args:
        environment: the first host's variables: those that SageMaker's toolkit passes on are passed on to all ranks.
        agent: the program that mpirun starts in place of ssh.
    """
    debug, options = _split_options(config.options)
    modern = version >= 5
    return [
        mpirun,
        *("--host", ",".join(_hosts(config))),
        *("-np", str(len(config.hosts) * config.processes)),
        "--allow-run-as-root",
        *(_modern(config, agent) if modern else _classic(config, agent)),
        *([] if _names(options, "bind-to") else ["--bind-to", _binding(modern=modern)]),
        *([] if _names(options, "map-by") else ["--map-by", "slot"]),
        *("--mca", "pml", "ob1"),
        *("--mca", "btl", _transports(config)),
        *("-x", "NCCL_MIN_NRINGS=4"),
        *(["-x", f"NCCL_SOCKET_IFNAME={config.interface}"] if config.interface else []),
        *("-x", f"NCCL_DEBUG={debug}"),
        *_variables(config.variables),
        *_passed_on(environment, ("LD_LIBRARY_PATH", "PATH")),
        *options,
        *_passed_on(environment, _CREDENTIALS),
        *_passed_on(environment, sorted(name for name in environment if name.startswith("SM_"))),
        *script,
    ]


def _hosts(config: MpiConfig) -> list[str]:
    # The names of hosts need not resolve if there is one network or one host; this one is always mpirun's own host.
    first = "localhost" if config.shared_network or not config.others else config.first
    names = [first, *config.others]
    return names if config.processes == 1 else [f"{name}:{config.processes}" for name in names]


def _classic(config: MpiConfig, agent: str) -> list[str]:
    """Options of Open MPI 4."""
    options = ["--tag-output"]
    if config.interface:
        options += [
            "--mca",
            "btl_tcp_if_include",
            config.interface,
            "--mca",
            "oob_tcp_if_include",
            config.interface,
        ]
    if agent:
        options += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent]
        options += ["--mca", "plm_rsh_num_concurrent", str(len(config.hosts))]
    return [
        *options,
        *("--mca", "plm_rsh_no_tree_spawn", "1"),
        *("--mca", "orte_abort_on_non_zero_status", "1"),
        # Containers may not read each other's memory.
        *("--mca", "btl_vader_single_copy_mechanism", "none"),
    ]


def _modern(config: MpiConfig, agent: str) -> list[str]:
    """Options of Open MPI 5, whose runtime is PRRTE; it ends all ranks when one fails by itself."""
    options = ["--output", "tag"]
    if config.interface:
        options += ["--mca", "btl_tcp_if_include", config.interface]
        if not config.shared_network:  # PRRTE accepts no loopback interface
            options += ["--prtemca", "prte_if_include", config.interface]
    if agent:
        options += ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", agent]
        options += ["--prtemca", "plm_ssh_num_concurrent", str(len(config.hosts))]
    # Without names resolved, the name of the first host would be another host's.
    return [*options, "--prtemca", "plm_ssh_no_tree_spawn", "1", "--prtemca", "prte_do_not_resolve", "0"]


def _transports(config: MpiConfig) -> str:
    # Files of shared memory are named after the machine: hosts that are one machine would share them, and ranks crash.
    return "self,tcp" if config.shared_network else "^openib"


def _binding(*, modern: bool) -> str:
    # Overloaded, because a laptop has fewer cores than a job may have ranks.
    return f"{'package' if modern else 'socket'}:overload-allowed"


def _split_options(options: Sequence[str]) -> tuple[str, list[str]]:
    """`--NCCL_DEBUG` is an option of the toolkit, not of mpirun."""
    debug, rest, words = "INFO", list[str](), iter(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--NCCL_DEBUG":
            debug = value if equals else next(words, debug)
        else:
            rest.append(word)
    return debug, rest


def _names(options: Sequence[str], name: str) -> bool:
    return any(word.lstrip("-") == name and word.startswith("-") for word in options)


def _variables(values: Mapping[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in ("-x", f"{name}={value}")]


def _passed_on(environment: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [word for name in names if name in environment for word in ("-x", name)]
