"""The settings of `accelerate launch`: its options, and the YAML file that `--config_file` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Span, Unit


class LaunchSettings(NamedTuple):
    """The settings in a file of `accelerate config`.

    Attributes:
        unit: the file.
        values: its settings, by name: `num_processes`, `use_cpu`, `mixed_precision`.
    """

    unit: Unit
    values: Mapping[str, Any]

    def number(self, name: str) -> int | None:
        """A number; None if it is not in the file."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def span(self, name: str) -> Span:
        """The line of a setting, or else the first line."""
        lines = self.unit.lines
        found = next((i for i, line in enumerate(lines, 1) if line.lstrip().startswith(f"{name}:")), 1)
        text = lines[found - 1]
        return self.unit.span(found, len(text) - len(text.lstrip()) + 1, found, len(text) + 1)


def launch_settings(job: JobDefinition) -> LaunchSettings | None:
    """The settings file of the `accelerate launch` that starts a job's script; None if there is none, or it is not here."""
    launcher = job.start.launcher if job.start is not None else None
    if (
        launcher is None
        or launcher.name != "accelerate"
        or job.script is None
        or "$" in str(launcher.options)
    ):
        return None
    name = launcher.options.get("config_file", "")
    if not name or PurePosixPath(name).is_absolute():
        return None
    script = job.script
    folder = script.unit.absolute.parent
    bases = dict.fromkeys((job.span.unit.absolute.parent, folder, *folder.parents[:2]))
    for base in bases:
        unit = script.loader.settings_file(base / name)
        if unit is not None:
            return script.loader.cached("accelerate settings", unit, lambda unit=unit: _read(unit))
    return None


def _read(unit: Unit) -> LaunchSettings | None:
    import yaml  # start-up: only for jobs with such a file

    try:
        loaded: Any = yaml.safe_load(unit.source)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return LaunchSettings(unit, loaded) if isinstance(loaded, dict) else None  # pyright: ignore[reportUnknownArgumentType]
