"""Keeps what was read of runs that have ended, so that the next listing need not read it again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.tracking.host_reports import HostReport
from gpuproof.util.atomic import write_json

_VERSION = 1


class EndedRuns:
    """The runs of one bucket that have ended: their launch records and the last reports of their hosts, which stay as they are.

    A folder that cannot be read or written is no error: then everything is read from S3.

    Args:
        folder: has a file for each run; None to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, run_id: str, etag: str) -> tuple[LaunchRecord, dict[str, HostReport]] | None:
        """What is known of a run; None if it is not, or if its launch record was changed since."""
        if self._folder is None:
            return None
        try:
            document: Any = json.loads(self._path(self._folder, run_id).read_bytes())
            if (document["version"], document["etag"]) != (_VERSION, etag):
                return None
            launch = LaunchRecord.parse(json.dumps(document["launch"]).encode())
            return launch, {
                host: HostReport(end=one["end"], state=one["state"])
                for host, one in document["reports"].items()
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def add(self, etag: str, launch: LaunchRecord, reports: Mapping[str, HostReport]) -> None:
        """Keep a run if all its hosts have reported their end.

        Args:
            etag: of the launch record, before it was read.
            reports: of all hosts, with the state of their agents.
        """
        # A reclaimed instance may be replaced: what is read then may be of the host before it.
        if self._folder is None or any(
            not report.end or report.end.get("interrupted") for report in reports.values()
        ):
            return
        document = {
            "version": _VERSION,
            "etag": etag,
            "launch": json.loads(launch.to_bytes()),
            "reports": {
                host: {"end": dict(report.end), "state": dict(report.state)}
                for host, report in reports.items()
            },
        }
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(self._path(self._folder, launch.run_id), document)

    def remove_others(self, run_ids: Collection[str]) -> None:
        """Remove what is known of runs that are no longer listed."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for path in self._folder.glob("*.json"):
                if path.stem not in run_ids:
                    path.unlink(missing_ok=True)

    @staticmethod
    def _path(folder: Path, run_id: str) -> Path:
        return folder / f"{run_id}.json"
