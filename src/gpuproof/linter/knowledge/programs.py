"""Programs that a script starts: one that only installs packages or prints facts does nothing else."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module

_COMMANDS = re.compile(
    r"^(subprocess\.[a-z]\w*|subprocess\.Popen|os\.(system|popen|exec\w*|spawn\w*|fork)|pty\.\w+|sh\.\w+)$"
)
_HARMLESS = re.compile(
    r"^(sudo )?(\S*python[\d.]* -m )?(pip3?|uv|conda|apt|apt-get|yum|nvidia-smi|nvcc|df|free|which|uname|ls|env|git rev-parse)\b"
)
_CHAINS = re.compile(r"[;&|`\n]|\$\(")


def starts_programs(script: Module) -> bool:
    """Whether a script, or a project module that it imports, may start a program that works on its data or GPUs."""
    return script.loader.cached(
        "starts programs",
        script.unit,
        lambda: any(starts_program(call) for module in local_modules(script) for call in all_calls(module)),
    )


def starts_program(call: Call) -> bool:
    """Whether a call may start such a program; pip, nvidia-smi and the like are none."""
    if not _COMMANDS.match(call.name or ""):
        return False
    command = call.argument("args", 0)
    if command.items is not None:
        words = [item.text or item.prefix or "" for item in command.items]
        # `[sys.executable, "-m", "pip", ...]`
        text = " ".join(words[2:] if words[:2] == ["", "-m"] else words)
    else:
        text = command.text or command.prefix or ""
        text = re.sub(r"^\S*python[\d.]* -m ", "", text)
    return _CHAINS.search(text) is not None or not _HARMLESS.match(text)
