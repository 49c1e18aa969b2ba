"""Finds syntax errors in CloudFormation, Terraform and JSON or YAML requests."""

from __future__ import annotations

import json
import re

from gpuproof.linter.source.span import Unit

Problem = tuple[int, str]
"""The line, from 1, and the error as a clause."""
_GENERATED = re.compile(r"\{%|\{\{(?!\s*resolve:)|<%|^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
"""Templates of other tools (Jinja, Helm, ERB), which are not YAML, JSON or Terraform yet."""


def problems(unit: Unit) -> list[Problem]:
    """The first syntax error of a template or request; empty if it has none, or another tool has yet to generate it."""
    if unit.kind == "terraform":
        from gpuproof.linter.templates import terraform_syntax

        found = terraform_syntax.problem(unit.source)
    else:
        is_json = unit.path.lower().endswith(".json") or unit.source.lstrip().startswith("{")
        found = _of_json(unit.source) if is_json else _of_yaml(unit.source)
    return [found] if found is not None and _GENERATED.search(unit.source) is None else []


def text_problem(unit: Unit, kind: str) -> Problem | None:
    """The first syntax error of a YAML or JSON file that code loads; None if another tool has yet to generate it."""
    found = _of_json(unit.source) if kind == "json" else _of_yaml(unit.source)
    return found if _GENERATED.search(unit.source) is None else None


def _of_json(source: str) -> Problem | None:
    try:
        json.loads(source)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and _is_json_lines(source):
            return None  # data, not a request
        return error.lineno, f"it is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
    except RecursionError:
        return 1, "it is nested too deeply"
    return None


def _is_json_lines(source: str) -> bool:
    lines = [line for line in source.splitlines() if line.strip()]
    try:
        return len(lines) > 1 and all(isinstance(json.loads(line), (dict, list)) for line in lines)
    except (json.JSONDecodeError, RecursionError):
        return False


def _of_yaml(source: str) -> Problem | None:
    import yaml  # 20 ms, only for templates

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.compose_all(source, Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return (
            mark.line + 1 if mark is not None else 1
        ), f"it is not valid YAML: {error.problem or error.context}"
    except yaml.YAMLError as error:
        return 1, f"it is not valid YAML: {str(error).splitlines()[0]}"
    except RecursionError:
        return 1, "it is nested too deeply"
    return None
