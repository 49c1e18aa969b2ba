"""Runs the blocks of a page of the documentation, one after the other, as a reader would in one folder."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.aws_cli import aws_cli
from support.doc_blocks import ROOT, Block, blocks_of

_PREPARATIONS = ROOT / "tests" / "end_to_end" / "pages"
_TIMEOUT_S = 900.0
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PIP_FIND_LINKS", "PYTHONPATH", "TMPDIR")
_PROGRAMS = ("curl", "jq", "ssh-keygen")
"""That blocks use, and that neither Python nor every machine has."""
_SAVE = '{ export -p; printf "cd %q\\n" "$PWD"; } > "$PAGE_STATE"'
"""Keeps variables and the working folder for the next block."""
_SLOW_AWS = re.compile(r"^gpuproof: waiting for 127\.0\.0\.1:.*\n", re.MULTILINE)
"""What is printed on a slow machine, when the emulator has not answered for 5 seconds."""


@dataclass
class PageRun:
    """A page's folder, and what its blocks have left there: files, variables, and programs in the background.

    Args:
        folder: is filled with `home`, `bin` and `project`.
        aws: variables with which AWS SDKs reach the emulator.
        output: what the command or block before printed.
        code: its exit code.
    """

    folder: Path
    aws: Mapping[str, str]
    output: str = ""
    code: int = 0
    _background: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "bin", "project"):
            (self.folder / name).mkdir()
        self._state.write_text(f"cd '{self.project}'\n")
        self._program("gpuproof", f'exec "{sys.executable}" -m gpuproof "$@"')

    @property
    def project(self) -> Path:
        """The folder in which the blocks run."""
        return self.folder / "project"

    def offer_gpus(self, variables: Mapping[str, str]) -> None:
        """Write `gpus.sh`, with which a preparation gives this machine GPUs."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        (self.folder / "gpus.sh").write_text(
            "\n".join(lines).replace("PYTHONPATH=", "PYTHONPATH=$PYTHONPATH:")
        )

    def run_page(self, page: str) -> None:
        """Prepare the folder and run all blocks of a page; skips the test where a program of its blocks is missing."""
        shells = [block.text for block in blocks_of(page) if block.how in ("shell", "session")]
        for program in _PROGRAMS:
            used = any(re.search(rf"(^|[|(;&$]\s*){program} ", text, re.MULTILINE) for text in shells)
            if used and shutil.which(program) is None:
                pytest.skip(f"{page} uses {program}, which is not installed")
        self.prepare(page)
        for block in blocks_of(page):
            self.run(block)

    def prepare(self, page: str) -> None:
        """Copy the examples if the page names one, and run `tests/end_to_end/pages/PAGE.sh`."""
        if re.search(r"examples/\w{2}", (ROOT / page).read_text()):
            caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / "examples", self.project / "examples", ignore=caches)
        script = _PREPARATIONS / f"{page.removeprefix('docs/').removesuffix('.md')}.sh"
        if script.exists():
            code, output = self._shell(script.read_text())
            assert code == 0, f"{script.name} ended with {code}:\n{output}"

    def run(self, block: Block) -> None:
        """Run a block; fails the test if it does not do what the page says."""
        getattr(self, f"_run_{block.how.replace(' ', '_')}")(block)

    def close(self) -> None:
        """End what runs in the background, and all runs."""
        for process in self._background:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in self._background:
            process.wait(_TIMEOUT_S)
        if list(self.folder.glob("home/.local/state/gpuproof/runs/*")):
            self._shell("gpuproof stop --all")

    def _run_file(self, block: Block) -> None:
        path = self.project / block.marks["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def _run_shell(self, block: Block) -> None:
        if "background" in block.marks:
            self._start(block)
        else:
            self._check(block, block.text)

    def _run_program(self, block: Block) -> None:
        file = self.folder / "block.py"
        file.write_text(block.text)
        place = "."
        if "alone" in block.marks:
            (self.folder / "alone").mkdir()
            place = str(self.folder / "alone")
        # As typed into an interpreter: modules of the folder are found.
        self._check(block, f'(cd "{place}"; PYTHONPATH=".${{PYTHONPATH:+:$PYTHONPATH}}" python "{file}")')

    def _run_session(self, block: Block) -> None:
        """Run each command, and compare what it prints: without the mark `exits`, its exit code is only what `echo $?` prints."""
        for command in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            lines = command.splitlines(keepends=True)
            end = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\\n"))
            text = "".join(lines[:end])
            if text == "echo $?\n":
                self.output = f"{self.code}\n"
            else:
                self._check(block, text, any_code="exits" not in block.marks)
            # Facts are the same on every machine; a run's numbers are not.
            self._compare(block, "".join(lines[end:]), exact=text.startswith("gpuproof gpus"))

    def _run_output(self, block: Block) -> None:
        self._compare(block, block.text)

    def _run_document(self, block: Block) -> None:
        text = block.text.strip()
        json.loads(text if text[0] in "{[" else f"{{{text}}}")

    def _run_job_file(self, block: Block) -> None:
        """`test_docs.py` reads it as a job file."""

    def _run_sample(self, block: Block) -> None:
        """Output is not run."""

    def _run_needs(self, block: Block) -> None:
        """Nothing here can run it."""

    def _run_test(self, block: Block) -> None:
        """Another test runs it."""

    def _check(self, block: Block, text: str, *, any_code: bool = False) -> None:
        if "aws" in re.findall(r"^\s*(\w+) ", text, re.MULTILINE):
            self._add_aws_cli()
        expected = int(block.marks.get("exits", "0"))
        self.code, self.output = self._shell(text, block.marks.get("answers"), expected)
        print(f"--- {block}\n{text}\n{self.output}exit code {self.code}")
        if not any_code:
            assert self.code == expected, (
                f"{block} ended with exit code {self.code} instead of {expected}:\n{self.output}"
            )

    def _compare(self, block: Block, expected: str, *, exact: bool = False) -> None:
        form = squeezed if exact else plain
        seen = form(_SLOW_AWS.sub("", self.output))
        assert shows(form(expected), seen), f"{block} shows:\n{expected}\nand it printed:\n{self.output}"

    def _shell(self, text: str, answers: str | None = None, exits: int = 0) -> tuple[int, str]:
        """Run lines in the folder and with the variables that the lines before have left.

        Args:
            answers: lines, separated by blanks, typed on a terminal; None: no terminal.
            exits: a command may exit with this code; the code of all lines is then the same.
        """
        on_error = f"trap 'page_status=$?; [ $page_status = {exits} ] || exit $page_status; page_code=$page_status' ERR; page_code=0"
        lines = [on_error, '. "$PAGE_STATE"', text, _SAVE, "exit $page_code"]
        with ExitStack() as stack:
            stdin = subprocess.DEVNULL if answers is None else _terminal(answers, stack)
            done = subprocess.run(
                ["bash", "-c", "\n".join(lines)],
                env=self._environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
            )
        return done.returncode, done.stdout

    def _start(self, block: Block) -> None:
        """Start each line in the background, and wait until it has printed the text of the mark."""
        for line in block.text.replace("\\\n", "").splitlines():
            log = self.folder / f"background-{len(self._background)}"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    ["bash", "-c", f'. "$PAGE_STATE"\n{line}'],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._background.append(process)
            deadline = time.monotonic() + _TIMEOUT_S
            while block.marks["background"] not in log.read_text(errors="replace"):
                running = process.poll() is None and time.monotonic() < deadline
                printed = log.read_text(errors="replace")
                assert running, f"{block}: {line} ended or printed too little:\n{printed}"
                time.sleep(0.05)

    @property
    def _state(self) -> Path:
        return self.folder / "state.sh"

    @property
    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        programs = [str(self.folder / "bin"), str(Path(sys.executable).parent), inherited.get("PATH", "")]
        return {
            **inherited,
            "PATH": os.pathsep.join(programs),
            "OMP_NUM_THREADS": "1",
            "TF_NUM_INTRAOP_THREADS": "1",
            "TF_NUM_INTEROP_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "COLUMNS": "160",
            "SOURCE_DATE_EPOCH": "1795392000",  # prices are not old in 2026
            "HOME": str(self.folder / "home"),
            "PAGE_STATE": str(self._state),
            "PAGE_FILES": str(_PREPARATIONS),
            **self.aws,
        }

    def _program(self, name: str, line: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def _add_aws_cli(self) -> None:
        if not aws_cli():
            pytest.skip("the page calls the AWS CLI, which is not installed (pip install awscli)")
        self._program("aws", f'exec env -u PYTHONPATH "{aws_cli()}" "$@"')


def plain(text: str) -> list[str]:
    """Lines without what differs from machine to machine: ids, numbers, units, durations, bars, paths, white space."""
    text = re.sub(r"-\d{8}-\d{6}-[0-9a-f]{4}", "-ID", text)
    text = re.sub(r"(?<![\w.])/(?!opt/ml)\S+", "PATH", text)
    text = re.sub(r"\d[\d.,:]*( ?([KMG]iB|B|s)\b)?", "N", text)
    text = re.sub(r"\bN (min|h)( N)?( min)?( N)?\b", "N", text)
    text = re.sub(r"[▁-█]+", "█", text)
    return squeezed(text)


def squeezed(text: str) -> list[str]:
    """Lines that are not empty, their white space folded."""
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


def shows(expected: list[str], seen: list[str]) -> bool:
    """Whether the output is as shown, where `…` stands for any number of lines."""
    if not expected:
        return not seen
    if expected[0] == "…":
        return any(shows(expected[1:], seen[start:]) for start in range(len(seen) + 1))
    return bool(seen) and expected[0] == seen[0] and shows(expected[1:], seen[1:])


def _terminal(answers: str, stack: ExitStack) -> int:
    """A terminal on which lines have been typed already; it does not show them."""
    keyboard, terminal = pty.openpty()
    stack.callback(os.close, keyboard)
    stack.callback(os.close, terminal)
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    os.write(keyboard, "".join(f"{answer}\n" for answer in answers.split()).encode())
    return terminal
