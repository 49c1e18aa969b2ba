"""Settings in `[tool.gpuproof.check]` of the nearest pyproject.toml; the keys are those of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.errors import UsageError
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.span import absolute

KEYS = {
    "select": "rules to run, by code, prefix or name",
    "extend-select": "rules to run in addition to the default ones",
    "ignore": "rules not to run",
    "exclude": "files and folders to skip, as .gitignore patterns",
    "per-file-ignores": "rules not to run on files, by pattern",
    "sagemaker-sdk": "major version of the SageMaker SDK that scripts use: 2 or 3",
    "region": "region of the jobs, for prices and availability",
    "markdown": "whether to check code blocks in Markdown files",
    "baseline": "a file with known findings, which are not reported",
}
"""Every key and its description."""


@dataclass(frozen=True)
class CheckSettings:
    """The settings of a project; each field is a key of the table.

    Args:
        path: the pyproject.toml; None without one.
    """

    path: Path | None = None
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    sagemaker_sdk: int | None = None
    region: str | None = None
    markdown: bool = False
    baseline: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder that patterns are relative to."""
        return self.path.parent if self.path is not None else Path.cwd()

    def excludes(self, path: Path) -> bool:
        """Whether `exclude` names a file, given by its absolute path, or a folder that contains it."""
        if not self.exclude or not path.is_relative_to(self.folder):
            return False
        import pathspec  # only if the settings exclude something

        spec = pathspec.GitIgnoreSpec.from_lines(self.exclude)
        return spec.match_file(str(path.relative_to(self.folder)))

    def ignores(self, hit: Hit) -> bool:
        """Whether `per-file-ignores` suppresses a finding."""
        return any(
            _selects(code, hit) and _matches(self, pattern, hit)
            for pattern, codes in self.per_file_ignores.items()
            for code in codes
        )


def read_settings(start: Path, *, up: bool = True) -> CheckSettings:
    """Read the settings of the nearest pyproject.toml with a `[tool.gpuproof.check]` table.

    The search starts at a folder or file and goes up to the root of the repository.

    Args:
        start: a folder or file.
        up: whether to search above it too.

    Raises:
        UsageError: the file does not parse, or a key or value is invalid.
    """
    start = absolute(start)
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and (table := _table(path)) is not None:
            return _settings(path, table)
        if not up or (folder / ".git").exists():
            break
    return CheckSettings()


def _table(path: Path) -> dict[str, Any] | None:
    content = path.read_bytes()
    if b"gpuproof" not in content:
        return None
    import tomllib  # only for a pyproject.toml that mentions gpuproof

    try:
        document = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    table: Any = document
    for key in ("tool", "gpuproof", "check"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None


def _settings(path: Path, table: dict[str, Any]) -> CheckSettings:
    for key in table:
        if key not in KEYS:
            from gpuproof.jobs.suggestions import did_you_mean

            raise UsageError(f"{path}: unknown key '{key}' in [tool.gpuproof.check]{did_you_mean(key, KEYS)}")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UsageError(f'{path}: per-file-ignores must be a table, as in "notebooks/*" = ["CO101"]')
    sdk, region, markdown = table.get("sagemaker-sdk"), table.get("region"), table.get("markdown", False)
    if sdk not in (None, 2, 3):
        raise UsageError(f"{path}: sagemaker-sdk must be 2 or 3, not {sdk!r}")
    if not isinstance(region, str | None) or not isinstance(markdown, bool):
        raise UsageError(f"{path}: region must be a string, and markdown true or false")
    baseline = table.get("baseline")
    if not isinstance(baseline, str | None):
        raise UsageError(f"{path}: baseline must be the path of a file")
    return CheckSettings(
        path=path,
        select=_texts(path, table, "select"),
        extend_select=_texts(path, table, "extend-select"),
        ignore=_texts(path, table, "ignore"),
        exclude=_texts(path, table, "exclude"),
        per_file_ignores={pattern: _texts(path, per_file, pattern) for pattern in per_file},
        sagemaker_sdk=sdk,
        region=region,
        markdown=markdown,
        baseline=path.parent / baseline if baseline is not None else None,
    )


def _texts(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f'{path}: {key} must be a list of strings, as in {key} = ["DS101"]')
    return tuple(value)


def _selects(code: str, hit: Hit) -> bool:
    return code.upper() == "ALL" or hit.code.startswith(code.upper()) or hit.rule_name == code.lower()


def _matches(settings: CheckSettings, pattern: str, hit: Hit) -> bool:
    import pathspec  # only if per-file-ignores is set

    path = hit.span.unit.absolute if hit.span.unit.kind != "cell-file" else absolute(hit.span.unit.path)
    if not path.is_relative_to(settings.folder):
        return False
    return pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(str(path.relative_to(settings.folder)))
