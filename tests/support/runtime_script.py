"""A script in a process of its own, for the tests of `gpuproof.runtime`."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from support.python_processes import Framework, start_python


@dataclass
class Script:
    """Runs a script to its end."""

    folder: Path
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, code: str, *, name: str = "train.py", imported: Framework | None = None, **variables: str
    ) -> str:
        """Its standard output; a script that fails is a test that fails."""
        done = self.done(code, name=name, imported=imported, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def done(
        self, code: str, *, name: str = "train.py", imported: Framework | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Whatever comes of it.

        Args:
            imported: the framework that the script may find imported, since it imports it first in any case.
        """
        (self.folder / name).write_text(code)
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **self.environment, **variables}
        with TemporaryFile() as output, TemporaryFile() as errors, open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), output.fileno(), errors.fileno())
            process = start_python(
                [name], imported, cwd=self.folder, env=environment, streams=streams, python=self.python
            )
            try:
                returncode = process.wait(600)
            finally:
                process.kill()
            for file in (output, errors):
                file.seek(0)
            texts = [file.read().decode() for file in (output, errors)]
        return subprocess.CompletedProcess([self.python, name], returncode, *texts)
