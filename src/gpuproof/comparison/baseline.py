"""The file in which a repository keeps baselines: `.gpuproof/baseline.json`, with the numbers that runs measured.

It is beside `gpuproof.yaml`, or where there is none, at the root of the Git repository, or else in the working directory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.comparison.measurements import RunMeasurements
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.timestamps import iso_time
from gpuproof.util.atomic import write_bytes
from gpuproof.util.humanize import join_words

VERSION = 1
FOLDER, NAME = ".gpuproof", "baseline.json"
_PROJECT_FILES = ("gpuproof.yaml", "gpuproof.yml")


@dataclass(frozen=True)
class Baseline:
    """A baseline.

    Args:
        name: the job's name, unless the user has chosen another.
        set_at: when it was stored: ISO 8601, in UTC.
        runs: that were stored.
    """

    name: str
    set_at: str
    runs: tuple[RunMeasurements, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {"set": self.set_at, "runs": [run.to_json() for run in self.runs]}


class BaselineFile:
    """Reads and replaces the file.

    Args:
        path: of the file, existing or not.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_project(cls, start: Path) -> BaselineFile:
        """The file of the project that a folder belongs to: the nearest that exists, or where it would be."""
        folders = (start, *start.parents)
        for folder in folders:
            if (path := folder / FOLDER / NAME).is_file():
                return cls(path)
            if (folder / ".git").exists():
                break
        project = next(
            (folder for folder in folders if any((folder / name).is_file() for name in _PROJECT_FILES)), None
        )
        root = project or next((folder for folder in folders if (folder / ".git").exists()), start)
        return cls(root / FOLDER / NAME)

    def read(self) -> dict[str, Baseline]:
        """The baselines by name; empty if there is no file.

        Raises:
            GPUproofError: it cannot be read, or is of a later version.
        """
        try:
            document = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        try:
            if document["version"] != VERSION:
                raise GPUproofError(
                    f"{self.path} has version {document['version']}; this GPUproof reads {VERSION}.",
                    remedy="Update GPUproof.",
                )
            return {name: _baseline(name, found) for name, found in document["baselines"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unreadable(error) from error

    def find(self, name: str | None, job: str | None = None) -> Baseline:
        """The baseline of a name, or of a job, or the only one.

        Args:
            name: as the user gave it.
            job: the job of the run that is compared.

        Raises:
            UsageError: there is none, or it is unclear which.
        """
        found = self.read()
        if name is not None:
            if name not in found:
                raise UsageError(f"{self.path} has no baseline '{name}'.", remedy=_names(found))
            return found[name]
        if not found:
            raise UsageError(f"There is no baseline: {self.path} has none.", "gpuproof baseline set RUN")
        if job in found:
            return found[job]
        if len(found) > 1:
            raise UsageError(
                f"{self.path} has several baselines" + (f", and none of the job '{job}'." if job else "."),
                remedy=_names(found),
            )
        return next(iter(found.values()))

    def set(self, name: str, runs: tuple[RunMeasurements, ...]) -> Baseline:
        """Store a baseline in place of the one with its name.

        Raises:
            GPUproofError: the file cannot be written.
        """
        stored = Baseline(name, iso_time(time.time()) or "", runs)
        self._write({**self.read(), name: stored})
        return stored

    def remove(self, name: str | None) -> Baseline:
        """Remove a baseline, and the file with the last one; without a name, the only one.

        Raises:
            UsageError: there is none of this name.
            GPUproofError: the file cannot be written.
        """
        removed = self.find(name)
        left = {key: stored for key, stored in self.read().items() if key != removed.name}
        if left:
            self._write(left)
        else:
            self.path.unlink(missing_ok=True)
        return removed

    def _write(self, baselines: Mapping[str, Baseline]) -> None:
        document = {
            "version": VERSION,
            "baselines": {name: baselines[name].to_json() for name in sorted(baselines)},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path, f"{json.dumps(document, indent=1)}\n".encode())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise GPUproofError(f"{self.path} cannot be written: {reason}.") from error

    def _unreadable(self, error: Exception) -> GPUproofError:
        reason = error.strerror if isinstance(error, OSError) else "it is no file of baselines"
        return GPUproofError(
            f"{self.path} cannot be read: {reason}.", remedy="Remove it, and set the baseline anew."
        )


def _baseline(name: str, found: Mapping[str, Any]) -> Baseline:
    runs = tuple(RunMeasurements.from_json(run) for run in found["runs"])
    if not runs:
        raise ValueError(name)
    return Baseline(name, str(found["set"]), runs)


def _names(found: Mapping[str, Baseline]) -> str:
    return f"--name NAME is one of: {join_words(sorted(found))}" if found else "gpuproof baseline set RUN"
