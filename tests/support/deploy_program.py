"""`gpuproof deploy`, `predict` and `delete` as programs, for tests against an emulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.aws_emulator import RunningEmulator
from support.endpoint_sandbox import ECHO, IMAGE


class Program:
    """Runs `gpuproof` in a folder with a model."""

    def __init__(self, emulator: RunningEmulator, folder: Path) -> None:
        self.emulator = emulator
        self.model = folder / "digits"
        (self.model / "code").mkdir(parents=True)
        self.write(ECHO)
        self.bucket = emulator.bucket(f"b-{folder.name.replace('_', '-')[-30:].strip('-').lower()}")
        self.environment = {
            **os.environ,
            **emulator.environment,
            "GPUPROOF_STATE_DIR": str(folder / "state"),
            "GPUPROOF_CACHE_DIR": str(emulator.state.parent / "cache"),
            "GPUPROOF_BUCKET": self.bucket,
            "GPUPROOF_ROLE_ARN": emulator.role,
        }

    def write(self, handler: str) -> None:
        (self.model / "code" / "inference.py").write_text(handler)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "gpuproof", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, errors = process.communicate(timeout=300)
        return process.returncode, out, errors

    def deploy(self, name: str, *words: str) -> tuple[int, str, str]:
        flags = ("--name", name, "--instance-type", "ml.g5.xlarge", "--image", IMAGE)
        return self.run("deploy", str(self.model), *flags, *words)

    def left(self, name: str) -> list[str]:
        client = self.emulator.client("sagemaker")
        found: list[Any] = client.list_endpoints(NameContains=name)["Endpoints"]
        found += client.list_endpoint_configs(NameContains=name)["EndpointConfigs"]
        return [*map(str, found), *map(str, client.list_models(NameContains=name)["Models"])]

    def endpoint_is_gone(self, name: str) -> bool:
        return not self.emulator.client("sagemaker").list_endpoints(NameContains=name)["Endpoints"]
