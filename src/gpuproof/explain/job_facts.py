"""Reads from the folder of a run what the user submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import ContractPaths, RunPaths
from gpuproof.explain.context import JobFacts

_VARIABLE = re.compile(r"\bSM_[A-Z][A-Z0-9_]*\b")
_PACKAGE = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)")
_MAX_FILES = 200
_MAX_BYTES = 1 << 20


def read_job_facts(document: Mapping[str, Any], paths: RunPaths) -> JobFacts:
    """The facts of a run on this machine.

    Args:
        document: the content of its `job.json`.
        paths: its folder, with the submitted source.
    """
    return job_facts(document, _code_folder(document, paths))


def job_facts(document: Mapping[str, Any], code: Path | None = None) -> JobFacts:
    """The facts of a run.

    Args:
        document: the content of its `job.json`.
        code: the folder with the submitted source; None if it is not on this machine.
    """
    return JobFacts(
        channels=tuple(document.get("channels", ())),
        environment=dict(document.get("environment", {})),
        arguments=tuple(document.get("arguments", ())),
        hyperparameters=tuple(document.get("hyperparameters", {})),
        launcher=document.get("launcher"),
        entry_point=document.get("entry_point", "the script"),
        variables_read=_variables(code) if code else None,
        requirements=_requirements(code / "requirements.txt") if code else (),
        files=tuple(sorted(entry.name for entry in code.iterdir())) if code else (),
    )


def _code_folder(document: Mapping[str, Any], paths: RunPaths) -> Path | None:
    hosts = (paths, *map(paths.host, document.get("hosts", ())))
    folders = (Path(ContractPaths(str(host.ml)).code) for host in hosts)
    return next((folder for folder in folders if folder.is_dir()), None)


def _variables(code: Path) -> tuple[str, ...]:
    found = {name for text in _sources(code) for name in _VARIABLE.findall(text)}
    return tuple(sorted(found))


def _sources(code: Path) -> Iterator[str]:
    files = sorted(path for suffix in ("py", "sh") for path in code.rglob(f"*.{suffix}"))
    for path in files[:_MAX_FILES]:
        with suppress(OSError):
            if path.stat().st_size <= _MAX_BYTES:
                yield path.read_text(encoding="utf-8", errors="replace")


def _requirements(path: Path) -> tuple[str, ...]:
    text = ""
    with suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")
    names = (match[1] for line in text.splitlines() if (match := _PACKAGE.match(line)))
    return tuple(name.lower().replace("_", "-") for name in names)
