"""A script in a process of its own, for the tests of `gpuproof.runtime`."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Script:
    """Runs a script to its end."""

    folder: Path
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, code: str, *, name: str = "train.py", **variables: str) -> str:
        """Its standard output; a script that fails is a test that fails."""
        done = self.done(code, name=name, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def done(
        self, code: str, *, name: str = "train.py", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Whatever comes of it."""
        (self.folder / name).write_text(code)
        return subprocess.run(
            [self.python, name],
            cwd=self.folder,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=600,
        )
