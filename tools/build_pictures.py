"""Builds the pictures of README and docs from real output: `python tools/build_pictures.py [NAME ...]`, a minute or two.

`check`, `plan` and `verdict` are a terminal's final screen as SVG; `report` and `notebook` are what Chromium shows, as PNG. The GPUs of
`verdict`, `report` and `notebook` are those of the stub NVML library (tests/support/nvml_stub.py), which the real agent samples through
the real pynvml while a real process runs. Needs Linux, a C compiler and PyTorch.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import Page, browser_page  # noqa: E402 - a package of the tests
from support.notebook_kernel import GpuMachine, notebook_kernel  # noqa: E402
from support.nvml_stub import Scenario, build_library  # noqa: E402

COLUMNS = 116
UTILIZATION = (34, 71, 88, 90, 87, 91, 89, 64, 90, 92, 88, 90)
"""Of GPU 0, percent, second by second; the others stay at 0."""
SECONDS = len(UTILIZATION)
ONE_OF_FOUR = """
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
LANGUAGE_MODEL = """
import argparse, torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=10)
arguments = parser.parse_args()

layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = nn.Sequential(nn.Embedding(32_000, 1024), nn.TransformerEncoder(layer, 24), nn.Linear(1024, 32_000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
tokens = torch.randint(0, 32_000, (20_000, 512))
batches = torch.utils.data.DataLoader(tokens, arguments.batch_size, shuffle=True)
for epoch in range(arguments.epochs):
    for batch in batches:
        batch = batch.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
# The theme's page without rich's web font, which a page on GitHub may not load. Browsers ignore `xml:space` by now, and
# collapse the spaces of a text whose element has no `white-space` of its own.
PAGE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" xml:space="preserve">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-matrix text {{ white-space: pre; }}
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


class Session(NamedTuple):
    """What a terminal shows.

    Args:
        title: of the window.
        words: the command after `gpuproof`.
        shows_code: whether the exit code is shown, as `echo $?` prints it.
    """

    title: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = {}
    shows_code: bool = False


def main() -> None:
    """Build the pictures that the command line names; all of them without a name."""
    for name in sys.argv[1:] or (*SESSIONS, *PAGES):
        with tempfile.TemporaryDirectory() as folder:
            (project := Path(folder) / "project").mkdir()
            if name in PAGES:
                PAGES[name](project, ROOT / "docs" / f"{name}.png")
                continue
            session = SESSIONS[name](project)
            output, code = run(session, project)
        text = f"\x1b[1m$ gpuproof {' '.join(session.words)}\x1b[0m\n{output}"
        if session.shows_code:
            text += f"\x1b[1m$ echo $?\x1b[0m\n{code}"
        print(text)
        (ROOT / "docs" / f"{name}.svg").write_text(picture(name, session.title, text), encoding="utf-8")


def check(project: Path) -> Session:
    """`gpuproof check` of an example that wastes three of four GPUs and loses its model."""
    shutil.copytree(ROOT / "examples" / "wasteful-job", project / "wasteful-job")
    words = ("check", "wasteful-job", "--select", "DS101,SM101")
    return Session("two mistakes, before they cost money", words, shows_code=True)


def plan(project: Path) -> Session:
    """`gpuproof plan` of a script that trains a language model of 370 million parameters."""
    (project / "train.py").write_text(LANGUAGE_MODEL)
    return Session("which GPU does it fit, how long, how much?", ("plan", "train.py"))


def verdict(project: Path) -> Session:
    """`gpuproof run` on four GPUs of which one does the work."""
    registered = project.parent / "pid"
    (project / "train.py").write_text(ONE_OF_FOUR.format(registered=str(registered), seconds=SECONDS))
    scenario = Scenario(project.parent / "gpus.txt").gpus(4)
    for second, utilization in enumerate(UTILIZATION):
        scenario.when_registered(registered, seconds=second + 1, util=utilization, memory_mib=9_430)
    scenario.run_in_real_time()
    words = ("run", "train.py", "--instance-type", "ml.g5.12xlarge")
    environment = scenario.environment(build_library(project.parent))
    return Session("one of four GPUs worked", words, environment, shows_code=True)


SESSIONS = {"check": check, "plan": plan, "verdict": verdict}


def report(project: Path, picture: Path) -> None:
    """`gpuproof report` of the run of `verdict`."""
    run(verdict(project), project)
    page = project / "run.html"
    run(Session("", ("report", "-o", str(page)), {}), project)
    text = page.read_text(encoding="utf-8")
    page.write_text(without_own_folders(text, str(project.parent)), encoding="utf-8")
    (profile := project.parent / "profile").mkdir()
    with browser_page(profile) as browser:
        resize(browser, 1200, 1270)
        browser.open(page.as_uri())
        browser.wait_for("document.querySelectorAll('canvas').length > 3", "no charts")
        browser.screenshot(picture)


def notebook(project: Path, picture: Path) -> None:
    """The report below a cell with `%%gpu`, on two GPUs of which one does the work."""
    for folder in (state := project.parent / "machine", profile := project.parent / "profile"):
        folder.mkdir()
    machine = GpuMachine(state, build_library(project.parent), gpus=2)
    steps = f"{indented(machine.wait(0.5, 2))}\n{indented(machine.work(4.0))}"
    (project / "training.py").write_text(f"def train(epochs):\n{steps}\n")
    with notebook_kernel(project, machine.environment) as kernel:
        kernel.run("%load_ext gpuproof\nfrom training import train")
        cell = kernel.run("%%gpu\ntrain(epochs=3)")
    page = project / "cell.html"
    source = (
        '<pre style="background:#f5f5f5;border:1px solid #ddd;padding:6px 10px">%%gpu\ntrain(epochs=3)</pre>'
    )
    body = (
        f'<body style="font:14px system-ui,sans-serif;margin:16px">{source}{"".join(cell.shown("text/html"))}'
    )
    page.write_text(f'<!doctype html><meta charset="utf-8">{body}', encoding="utf-8")
    with browser_page(profile) as browser:
        resize(browser, 820, 250)
        browser.open(page.as_uri())
        browser.wait_for("document.querySelectorAll('svg[role=img]').length === 2", "no plots")
        browser.screenshot(picture)


PAGES = {"report": report, "notebook": notebook}


def resize(page: Page, width: int, height: int) -> None:
    """Make a page that many pixels large, on a screen with 1.25 of its own for each."""
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1.25, mobile=False
    )


def indented(code: str) -> str:
    """Code as the body of a function."""
    return "\n".join(f"    {line}" for line in code.splitlines())


def without_own_folders(text: str, folder: str) -> str:
    """A text that names the folders of a user in place of those of this machine."""
    return text.replace(folder, "/home/you").replace(sys.prefix, "/home/you/venv")


def picture(name: str, title: str, text: str) -> str:
    """A terminal's screen as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(text), soft_wrap=False)
    svg = console.export_svg(title=title, theme=DIMMED_MONOKAI, code_format=PAGE, unique_id=name)
    # Some renderers drop no-break spaces at the start of a text, which rich uses, and none drop preserved spaces.
    lines = [line.rstrip() for line in svg.replace("&#160;", " ").splitlines()]
    return "\n".join(lines) + "\n"


def run(session: Session, project: Path) -> tuple[str, int]:
    """The final screen of a command, with ANSI colours, and its exit code."""
    folder = str(project.parent)
    environment = {
        **os.environ,
        **session.environment,
        "HOME": folder,
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": "40",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    for name in ("NO_COLOR", "CI", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuproof", *session.words],
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
    return without_own_folders(final_screen(raw.decode()), folder), process.wait()


def final_screen(raw: str) -> str:
    """What is left when progress lines have been overwritten: of each line, what follows its last carriage return."""
    lines = raw.replace("\r\n", "\n").split("\n")
    kept = [re.split(r"\r|\x1b\[2?K", line)[-1] for line in lines]
    return re.sub(r"\x1b\[\?\d+[hl]", "", "\n".join(kept))


if __name__ == "__main__":
    main()
