"""Helpers of these tests: a folder of files, the module model of a text, the jobs of a folder."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.engine import CheckOptions, CheckReport, check_paths
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.link import find_jobs
from gpuproof.linter.project import Project
from gpuproof.linter.registry import Selection
from gpuproof.linter.source.read import read_units
from gpuproof.linter.source.span import Unit


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def module_of(text: str, path: str = "script.py") -> Module:
    unit = Unit(path, textwrap.dedent(text), "python")
    module = Project([unit]).workspace.module(unit)
    assert module is not None, "it does not parse"
    return module


def value_of(text: str, name: str = "x") -> Value:
    """The value of `name` at the end of a text, to which a use of it is added."""
    module = module_of(textwrap.dedent(text) + f"\n{name}\n")
    last = module.tree.root.body[-1]
    assert isinstance(last, ast.Expr)
    return evaluate(module, last.value)


def jobs_in(folder: Path, *paths: str) -> list[JobDefinition]:
    units, failures = read_units([str(folder / path) for path in paths])
    assert not failures
    project = Project(units)
    project.link(find_jobs(units, project.workspace))
    return project.jobs


def check_here(*paths: str, select: tuple[str, ...] = (), **options: object) -> CheckReport:
    return check_paths(paths or (".",), CheckOptions(Selection(select=select), **options))  # type: ignore[arg-type]
