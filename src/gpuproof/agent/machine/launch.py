"""How the agent starts the program of a machine, prepares for it, and learns why it has ended."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from gpuproof.agent.job import AgentJob, MachineSettings
from gpuproof.agent.machine.files import MachineFiles
from gpuproof.agent.machine.server_command import MODULES, REQUIREMENT
from gpuproof.agent.output import Sink
from gpuproof.agent.paths import ContractPaths, RunPaths

_AGENT = Path(__file__).parents[3]
_FIND = "import importlib.util, sys; sys.exit(not any(map(importlib.util.find_spec, sys.argv[1:])))"
_LONGEST = 4096


def machine_command(
    job: AgentJob, settings: MachineSettings, contract: ContractPaths, paths: RunPaths
) -> list[str]:
    """The command of a machine's program, which runs in the code folder."""
    options = ["--ml", contract.base, "--work", contract.checkpoints]
    options += ["--idle-timeout", f"{settings.idle_timeout:g}"]
    options += ["--packages", str(paths.packages)] if paths.packages.is_dir() else []
    options += ["--source", "."] if settings.seeds_work_folder else []
    options += ["--jupyter"] if settings.jupyter else []
    return [job.python, str(_AGENT), "--machine", *options]


def install_jupyter(python: str, packages: Path, log: Sink) -> None:
    """Install JupyterLab for this run, if the interpreter has no Jupyter server.

    Raises:
        RequirementsConflict: it would replace the framework.
        RequirementsFailed: pip failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    if subprocess.run([python, "-c", _FIND, *MODULES], env=environment, check=False).returncode == 0:
        return
    from gpuproof.agent.requirements.install import install_requirements  # hardly ever needed

    with tempfile.TemporaryDirectory(prefix="gpuproof-jupyter-") as folder:
        requirements = Path(folder, "jupyter.txt")
        requirements.write_text(f"{REQUIREMENT}\n", encoding="utf-8")
        install_requirements(python, requirements, packages, log)


def end_reason(ml: Path) -> str | None:
    """Why a machine's program has ended by itself; None if it has not."""
    try:
        with MachineFiles(ml).end.open("rb") as file:
            document = json.loads(file.read(_LONGEST))
    except (OSError, ValueError):
        return None
    reason = document.get("reason") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) else None
