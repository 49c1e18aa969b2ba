"""Builds docs/verdict.svg: the real output of a run on four GPUs of which one does the work.

The GPUs are those of the stub NVML library (tests/support/nvml_stub.py), which the real agent samples through the real
pynvml while a real process runs. Needs Linux and a C compiler: `python tools/build_readme_picture.py`, about 20 s.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.nvml_stub import Scenario, build_library  # noqa: E402 - a package of the tests

PICTURE = ROOT / "docs" / "verdict.svg"
COLUMNS = 116
COMMAND = ("run", "train.py", "--instance-type", "ml.g5.12xlarge", "--no-check")
SECONDS = 12
UTILIZATION = (34, 71, 88, 90, 87, 91, 89, 64, 90, 92, 88, 90)
"""Of GPU 0, percent, second by second; the others stay at 0."""
SCRIPT = """
import os, time
with open({registered!r}, "w") as file:
    file.write(str(os.getpid()))
weights = bytearray(os.urandom(300_000_000))
for epoch in range(1, 4):
    until = time.monotonic() + {seconds} / 3
    while time.monotonic() < until:
        sum(weights[: 1_000_000])
    print(f"epoch {{epoch}}/3 loss {{1.9 / epoch:.3f}}", flush=True)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights.bin"), "wb") as file:
    file.write(weights[:20_000_000])
"""
# The theme's page without rich's web font, which a page on GitHub may not load.
PAGE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" xml:space="preserve">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    """Runs the job, prints what it printed and writes the picture."""
    with tempfile.TemporaryDirectory() as folder:
        output, code = run_job(Path(folder))
    text = f"\x1b[1m$ gpuproof {' '.join(COMMAND[:-1])}\x1b[0m\n{output}\x1b[1m$ echo $?\x1b[0m\n{code}"
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(text), soft_wrap=False)
    svg = console.export_svg(
        title="one of four GPUs worked", theme=DIMMED_MONOKAI, code_format=PAGE, unique_id="verdict"
    )
    # Some renderers drop no-break spaces at the start of a text, which rich uses, and none drop preserved spaces.
    lines = [line.rstrip() for line in svg.replace("&#160;", " ").splitlines()]
    PICTURE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(text)


def run_job(folder: Path) -> tuple[str, int]:
    """The final screen of `gpuproof run`, with ANSI colours, and its exit code."""
    project = folder / "project"
    project.mkdir()
    registered = folder / "pid"
    (project / "train.py").write_text(SCRIPT.format(registered=str(registered), seconds=SECONDS))
    scenario = Scenario(folder / "gpus.txt").gpus(4)
    for second, utilization in enumerate(UTILIZATION):
        scenario.when_registered(registered, seconds=second + 1, util=utilization, memory_mib=9_430)
    scenario.run_in_real_time()
    environment = {
        **os.environ,
        **scenario.environment(build_library(folder)),
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": "40",
    }
    for name in ("NO_COLOR", "CI", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuproof", *COMMAND],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    raw = bytearray()
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        raw += block
    screen = (
        final_screen(raw.decode()).replace(str(folder), "/home/you").replace(sys.prefix, "/home/you/venv")
    )
    return screen, process.wait()


def final_screen(raw: str) -> str:
    """What is left when progress lines have been overwritten: of each line, what follows its last carriage return."""
    lines = raw.replace("\r\n", "\n").split("\n")
    kept = [re.split(r"\r|\x1b\[2?K", line)[-1] for line in lines]
    return re.sub(r"\x1b\[\?\d+[hl]", "", "\n".join(kept))


if __name__ == "__main__":
    main()
