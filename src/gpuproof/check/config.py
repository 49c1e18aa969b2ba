"""`[tool.gpuproof.check]` of the nearest pyproject.toml: the same words as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.check.rule import Hit

KEYS = {
    "select": "rules that run, by code, prefix or name",
    "extend-select": "rules that run beside the default ones",
    "ignore": "rules that do not run",
    "exclude": "files and folders that are left alone, as patterns of .gitignore",
    "per-file-ignores": "rules that do not run for files, by pattern",
    "sagemaker-sdk": "the SDK's major version that scripts are written for: 2 or 3",
    "region": "where jobs run, for prices and offerings",
    "markdown": "whether fenced blocks of Markdown files are checked",
}
"""Every key, and what it sets."""


@dataclass(frozen=True)
class CheckSettings:
    """What a project has settled.

    Args:
        path: the file; None without one.
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

    @property
    def folder(self) -> Path:
        """What patterns are relative to."""
        return self.path.parent if self.path is not None else Path.cwd()

    def ignores(self, hit: Hit) -> bool:
        """Whether `per-file-ignores` silences a finding."""
        return any(
            _means(code, hit) and _matches(self, pattern, hit)
            for pattern, codes in self.per_file_ignores.items()
            for code in codes
        )


def read_settings(start: Path) -> CheckSettings:
    """The settings of the nearest pyproject.toml that has some, from a folder or file upwards.

    Raises:
        UsageError: the file does not parse, or a key or value is wrong.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and (table := _table(path)) is not None:
            return _settings(path, table)
        if (folder / ".git").exists():
            break
    return CheckSettings()


def _table(path: Path) -> dict[str, Any] | None:
    content = path.read_bytes()
    if b"gpuproof" not in content:
        return None
    import tomllib  # only where a pyproject.toml speaks of gpuproof

    try:
        document = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    table: Any = document
    for key in ("tool", "gpuproof", "check"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None


def _settings(path: Path, table: dict[str, Any]) -> CheckSettings:
    for key in table:
        if key not in KEYS:
            from gpuproof.jobs.suggestions import did_you_mean

            raise UsageError(f"{path}: [tool.gpuproof.check] has no key '{key}'{did_you_mean(key, KEYS)}")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UsageError(f'{path}: per-file-ignores is a table, as in "notebooks/*" = ["CO101"]')
    sdk, region, markdown = table.get("sagemaker-sdk"), table.get("region"), table.get("markdown", False)
    if sdk not in (None, 2, 3):
        raise UsageError(f"{path}: sagemaker-sdk is 2 or 3, not {sdk!r}")
    if not isinstance(region, str | None) or not isinstance(markdown, bool):
        raise UsageError(f"{path}: region is text and markdown is true or false")
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
    )


def _texts(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f'{path}: {key} is a list of texts, as in {key} = ["DS101"]')
    return tuple(value)


def _means(code: str, hit: Hit) -> bool:
    return code.upper() == "ALL" or hit.code.startswith(code.upper()) or hit.rule_name == code.lower()


def _matches(settings: CheckSettings, pattern: str, hit: Hit) -> bool:
    import pathspec  # only where per-file-ignores are set

    path = (
        hit.span.unit.absolute if hit.span.unit.kind != "cell-file" else Path(hit.span.unit.path).absolute()
    )
    if not path.is_relative_to(settings.folder):
        return False
    return pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(str(path.relative_to(settings.folder)))
