"""Where the steps run: an account of AWS, or the emulator, which simulates the GPU and lets hours pass."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

TOKEN = "GPUPROOF_EMULATOR_TOKEN"
"""The environment variable with the emulator's token, if the credentials are those of a user whom it knows."""

_HERE = Path(__file__).parent
_ACCOUNT_LIMITS = {"hang_limit": "10m", "idle_timeout": "10m"}
_EMULATOR_LIMITS = {"hang_limit": "15s", "idle_timeout": "10m"}


@dataclass(frozen=True)
class Target:
    """What answers AWS's requests.

    Args:
        backend: as recordings name it.
        poll_s: seconds between two looks at something that takes time.
        limits: values of the steps' placeholders.
        simulated_gpu: on the emulator, the folder with the files `pid` and `looks` of the stub NVML library.
    """

    backend: Literal["aws", "emulator"]
    poll_s: float
    limits: Mapping[str, str]
    simulated_gpu: Path | None = None

    @property
    def is_emulator(self) -> bool:
        """Whether it is the emulator."""
        return self.backend == "emulator"

    def write_project(self, folder: Path) -> None:
        """Write the scripts and models of the steps into a folder."""
        shutil.copytree(
            _HERE / "project", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
        if self.simulated_gpu is None:
            return
        for source in (_HERE / "simulated").rglob("*.py"):
            text = source.read_text().replace("{gpu}", str(self.simulated_gpu))
            (folder / source.relative_to(_HERE / "simulated")).write_text(text)

    def run_schedules(self, minutes: float) -> None:
        """On the emulator, run the schedules of the next minutes at once; an account needs the minutes themselves."""
        if self.is_emulator:
            self._post("scheduler/run-due", {"time": time.time() + 60 * minutes})

    def inject(self, faults: Sequence[Mapping[str, Any]]) -> None:
        """On the emulator, replace the injected faults, for what an account refuses by itself."""
        if self.is_emulator:
            self._request("DELETE", "faults")
            for fault in faults:
                self._post("faults", fault)

    def _post(self, path: str, body: Mapping[str, Any]) -> None:
        self._request("POST", path, json.dumps(body).encode())

    def _request(self, method: str, path: str, body: bytes | None = None) -> None:
        token = os.environ.get(TOKEN) or os.environ["AWS_SECRET_ACCESS_KEY"]
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{os.environ['AWS_ENDPOINT_URL']}/_gpuproof/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=300):
            pass


def current_target(simulated_gpu: Path | None) -> Target:
    """The emulator if `AWS_ENDPOINT_URL` is set, else AWS.

    Raises:
        ValueError: there is a simulated GPU for an account, or none for the emulator.
    """
    emulated = bool(os.environ.get("AWS_ENDPOINT_URL"))
    if emulated != (simulated_gpu is not None):
        raise ValueError("--simulated-gpu is for the emulator (AWS_ENDPOINT_URL), which needs it")
    if emulated:
        return Target("emulator", 0.5, _EMULATOR_LIMITS, simulated_gpu)
    return Target("aws", 20.0, _ACCOUNT_LIMITS)
