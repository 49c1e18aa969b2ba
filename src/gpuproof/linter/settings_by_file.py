"""The settings of each file: those of the nearest pyproject.toml, whatever folder is checked and from where."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuproof.errors import UsageError
from gpuproof.linter.config import CheckSettings, read_settings
from gpuproof.linter.project import Target
from gpuproof.linter.registry import RuleEntry, Selection, select_rules
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.span import absolute


@dataclass(frozen=True, eq=False)
class RuleSet:
    """How the files of one pyproject.toml are checked."""

    settings: CheckSettings
    rules: tuple[RuleEntry, ...]
    target: Target


class SettingsByFile:
    """Finds the settings of files.

    Args:
        given: the settings of the first path, or those of the caller if they come from no file.

    Attributes:
        problems: invalid settings; the files below them are checked with the default settings.

    Raises:
        UsageError: a rule of the given settings or of the selection is unknown.
    """

    def __init__(self, given: CheckSettings, selection: Selection, target: Target) -> None:
        self._selection = selection
        self._target = target
        default = given if given.path is None else CheckSettings()
        self._default = self._rule_set(default)
        self._by_file: dict[Path, RuleSet] = {}
        if given.path is not None:
            self._by_file[given.path] = self._rule_set(given)
        self._by_folder: dict[str, RuleSet] = {}
        self.problems: list[UsageError] = []

    def of(self, path: str) -> RuleSet:
        """The rule set of a file."""
        return self._of_folder(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120  # runs for every file

    def rule_sets(self) -> list[RuleSet]:
        """Every rule set that a file has had so far."""
        return list(dict.fromkeys(self._by_folder.values())) or [self._default]

    def keeps(self, hit: Hit) -> bool:
        """Whether no `per-file-ignores` suppresses a finding."""
        return not self.of(hit.span.unit.path).settings.ignores(hit)

    def included(self, files: Iterable[str], named: Iterable[str], *, markdown: bool) -> list[str]:
        """The files that no settings exclude.

        Args:
            files: all files, with Markdown files.
            markdown: whether to include Markdown files whatever the settings are.
        """
        always = {os.path.normpath(path) for path in named}
        return [
            path
            for path in files
            if path in always
            or (
                (markdown or not path.endswith(".md") or self.of(path).settings.markdown)
                and not self.of(path).settings.excludes(absolute(path))
            )
        ]

    def _of_folder(self, folder: str) -> RuleSet:
        if folder not in self._by_folder:
            found = self._own(Path(folder))
            parent = os.path.dirname(folder)  # noqa: PTH120
            is_root = parent == folder or os.path.exists(f"{folder}/.git")  # noqa: PTH110
            self._by_folder[folder] = found or (self._default if is_root else self._of_folder(parent))
        return self._by_folder[folder]

    def _own(self, folder: Path) -> RuleSet | None:
        """The rule set of the pyproject.toml in a folder; None without one."""
        path = folder / "pyproject.toml"
        if path in self._by_file:
            return self._by_file[path]
        if not path.is_file():
            return None
        try:
            settings = read_settings(folder, up=False)
            found = self._rule_set(settings) if settings.path is not None else None
        except UsageError as error:
            self.problems.append(error)
            return self._default
        if found is not None:
            self._by_file[path] = found
        return found

    def _rule_set(self, settings: CheckSettings) -> RuleSet:
        given, target = self._selection, self._target
        selection = Selection(
            select=given.select or settings.select,
            extend=settings.extend_select + given.extend,
            ignore=settings.ignore + given.ignore,
        )
        rules = tuple(select_rules(selection))
        region = target.region or settings.region
        return RuleSet(
            settings,
            rules,
            replace(target, sagemaker_sdk=target.sagemaker_sdk or settings.sagemaker_sdk, region=region),
        )
