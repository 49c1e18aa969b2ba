"""A terminal for programs that draw on one: tmux, with a server of its own.

with Terminal(columns=80, rows=24) as terminal:      # skips the test where there is no tmux
    terminal.run(["gpuproof", "top"], environment)
    terminal.wait_for("waits for")
    terminal.keys("q")
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

_TIMEOUT_S = 300.0
"""A busy machine can be many times as slow as an idle one."""


class Terminal:
    """A terminal with a shell."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("needs tmux (apt-get install tmux)")
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._words = ["tmux", "-L", f"gpuproof-{uuid.uuid4().hex}", "-f", "/dev/null"]

    def __enter__(self) -> Terminal:
        # The client's own locale would make tmux replace characters.
        environment = {**os.environ, "PS1": "$ ", "LC_ALL": "C.UTF-8"}
        shell = "exec sh -i"
        subprocess.run(
            [*self._words, "-u", "new-session", "-d", *self._size, shell], check=True, env=environment
        )
        self._do("set-option", "-g", "remain-on-exit", "on")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._words, "kill-server"], capture_output=True)

    def run(self, words: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> None:
        """Start a command in the terminal's shell, with exactly these variables; its exit code is printed when it ends."""
        variables = shlex.join([f"{name}={value}" for name, value in environment.items()])
        script = folder / f"run-{uuid.uuid4().hex}.sh"
        command = shlex.join(map(str, words))
        script.write_text(
            f"cd {shlex.quote(str(folder))}\nenv -i TERM=$TERM {variables} {command}\necho ended with $?\n"
        )
        self._do("send-keys", "-l", f"sh {script}")
        self._do("send-keys", "Enter")

    def keys(self, *keys: str) -> None:
        """Press keys, such as `q`, `C-c` or `Enter`."""
        self._do("send-keys", *keys)

    def screen(self, *, colours: bool = False) -> str:
        """What the terminal shows; with the sequences of its colours on request."""
        return self._do("capture-pane", "-p", *(["-e"] if colours else []))

    def wait_for(self, text: str | Callable[[str], object]) -> str:
        """Wait until the terminal shows a text (a regular expression), or a condition holds of what it shows."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            shown = self.screen()
            if text(shown) if callable(text) else re.search(text, shown):
                return shown
            assert time.monotonic() < deadline, f"{text!r} did not appear:\n{shown}"
            time.sleep(0.05)

    def is_restored(self) -> bool:
        """Whether the terminal shows what is typed, and is not on its alternate screen."""
        flags = self._do("display-message", "-p", "#{alternate_on} #{cursor_flag} #{pane_tty}").split()
        settings = subprocess.run(["stty", "-a", "-F", flags[2]], capture_output=True, text=True, check=True)
        words = settings.stdout.split()
        return flags[:2] == ["0", "1"] and "icanon" in words and "echo" in words

    def _do(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], check=True, capture_output=True, text=True)
        return done.stdout
