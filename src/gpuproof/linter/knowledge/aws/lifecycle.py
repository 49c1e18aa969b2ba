"""Lifecycle configurations of notebooks: their scripts, and whether these stop an idle instance or take too long.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/notebook-lifecycle-config.html ("Lifecycle configuration best
practices": a script may run for 5 minutes, else the instance fails to be created or started), 2026-11-28.
"""

from __future__ import annotations

import ast
import base64
import binascii
import re
from typing import NamedTuple

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.read import read_resources
from gpuproof.linter.templates.resource import Resource

LIMIT_MINUTES = 5
_NOTEBOOK = {
    "AWS::SageMaker::NotebookInstanceLifecycleConfig": ("OnStart", "OnCreate"),
    "aws_sagemaker_notebook_instance_lifecycle_configuration": ("on_start", "on_create"),
}
_STUDIO = {
    "AWS::SageMaker::StudioLifecycleConfig": "StudioLifecycleConfigContent",
    "aws_sagemaker_studio_lifecycle_config": "studio_lifecycle_config_content",
}
_NAMES = ("NotebookInstanceLifecycleConfigName", "name")
_STOPS = re.compile(
    r"auto[-_]?stop|idle|stop[-_]notebook|shutdown|poweroff|\bhalt\b|crontab|cron\.d|systemctl|at now",
    re.IGNORECASE,
)
_FETCHES = re.compile(
    r"\b(curl|wget|git clone|aws s3|s5cmd)\b|\bsource\s|\b(bash|sh|python3?)\s+/?[\w./-]+\.(sh|py)\b"
)
"""Commands that may run a script whose contents are not seen."""
_LONG = re.compile(
    r"""^\s*(?:sudo\s+(?:-\S+\s+(?:\w[\w-]*\s+)?)*)?(?:\S*/)?
    (?: (?:conda|mamba|micromamba)\s+(?:env\s+)?(?:create|install|update)\b
      | docker\s+build\b
      | pip3?\s+install\b.*\b(?:flash[-_]attn|apex|detectron2|xformers)\b )
    [^\n]*""",
    re.VERBOSE | re.MULTILINE,
)
"""Commands that certainly or probably take longer than the limit: they solve and download an environment, or compile."""
_BACKGROUND = re.compile(
    r"\bnohup\b|\bsetsid\b|\bsystemd-run\b|\bdisown\b|\bat\s+now\b|(?<![&>|])&\s*(?:\d?>.*)?$", re.MULTILINE
)
_FILE = re.compile(
    r"^[^\n]*\b(?:cat|tee)\b[^\n]*<<-?\s*[\"']?(\w+)[\"']?[^\n]*\n.*?^\s*\1\s*$", re.MULTILINE | re.DOTALL
)
"""A text that a script writes to a file."""


class LifecycleScript(NamedTuple):
    """One script of a lifecycle configuration.

    Attributes:
        text: the decoded script; None if it is unknown.
        event: when it runs, as the configuration calls it: `OnStart`.
        config: the name of the configuration; None if it is unknown.
    """

    text: str | None
    event: str
    config: str | None
    span: Span


def scripts_of_template(unit: Unit) -> list[LifecycleScript]:
    """The scripts of the lifecycle configurations of a template; empty for a program of the CDK."""
    if unit.kind not in ("cloudformation", "terraform"):
        return []
    return [script for resource in read_resources(unit) for script in scripts_of_resource(resource)]


def scripts_of_resource(resource: Resource) -> list[LifecycleScript]:
    """The scripts of one resource; empty if it is no lifecycle configuration."""
    found: list[LifecycleScript] = []
    name = next((text for key in _NAMES if (text := resource.get(key).text)), resource.name)
    for event in _NOTEBOOK.get(resource.type, ()):
        value = resource.get(event)
        hooks = (
            [value] if resource.source == "terraform" else [item.at("Content") for item in value.items or ()]
        )
        found += [
            LifecycleScript(_decoded(hook), event, name, hook.span or resource.span)
            for hook in hooks
            if not hook.is_absent
        ]
    if (key := _STUDIO.get(resource.type)) and not resource.get(key).is_absent:
        content = resource.get(key)
        found.append(LifecycleScript(_decoded(content), key, name, content.span or resource.span))
    return found


def scripts_of_module(module: Module) -> list[LifecycleScript]:
    """The scripts of the lifecycle configurations that a module creates with boto3."""
    found: list[LifecycleScript] = []
    for call in calls_named(module, "create_notebook_instance_lifecycle_config"):
        name = call.argument("NotebookInstanceLifecycleConfigName").text
        for event in ("OnStart", "OnCreate"):
            hooks = call.expression(event)
            made = module.origin(hooks)
            for item in made.elts if isinstance(made, ast.List) else ():
                content = _entry(module, item)
                span = module.span(content) if content is not None else call.span
                found.append(LifecycleScript(_encoded_text(module, content), event, name, span))
    for call in calls_named(module, "create_studio_lifecycle_config"):
        content = call.expression("StudioLifecycleConfigContent")
        if content is not None:
            name = call.argument("StudioLifecycleConfigName").text
            found.append(
                LifecycleScript(
                    _encoded_text(module, content), "StudioLifecycleConfigContent", name, module.span(content)
                )
            )
    return found


def may_stop(script: LifecycleScript) -> bool:
    """Whether a script may stop an idle instance: by its own commands, or by those of a script that it runs."""
    return script.text is None or bool(_STOPS.search(script.text) or _FETCHES.search(script.text))


def slow_command(script: LifecycleScript) -> str | None:
    """The first command that takes longer than the limit in the foreground; None without one, or if any runs in the background."""
    if script.text is None:
        return None
    commands = _FILE.sub("", script.text)
    match = _LONG.search(commands)
    return " ".join(match.group().split()) if match is not None and not _BACKGROUND.search(commands) else None


def _decoded(value: Value) -> str | None:
    """A script of a template: as it is, where a function encodes it, or in base64."""
    text = value.text
    if text is None or "\n" in text or text.startswith("#!") or " " in text.strip():
        return text
    return _from_base64(text)


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _entry(module: Module, item: ast.expr) -> ast.expr | None:
    made = module.origin(item)
    if not isinstance(made, ast.Dict):
        return None
    return next(
        (
            value
            for key, value in zip(made.keys, made.values, strict=True)
            if evaluate(module, key).text == "Content"
        ),
        None,
    )


def _encoded_text(module: Module, node: ast.expr | None) -> str | None:
    """The text in `base64.b64encode(text.encode()).decode()`, or in a literal in base64."""
    for _ in range(8):
        made = module.origin(node)
        if not isinstance(made, ast.Call):
            text = evaluate(module, made).text if made is not None else None
            return _from_base64(text) if text is not None and "\n" not in text and "#!" not in text else text
        if made.args and not isinstance(made.func, ast.Attribute | ast.Name):
            return None
        is_method = isinstance(made.func, ast.Attribute) and made.func.attr in ("decode", "encode")
        node = (
            made.func.value
            if is_method and isinstance(made.func, ast.Attribute)
            else next(iter(made.args), None)
        )
    return None
