"""`gpuproof top` on real terminals: this machine with the stub NVML, and a real local run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox, until
from support.nvml_stub import Scenario, build_library
from support.tmux import Terminal

pytestmark = pytest.mark.journey

TOP = [sys.executable, "-m", "gpuproof", "top"]
WORKS = """
import os, time
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
epoch = 0
while not os.path.exists({stop!r}):
    epoch += 1
    print("epoch", epoch, "\\u00e9", flush=True)
    time.sleep(0.2)
"""


class Machine:
    """A machine with two GPUs, of which a run uses one, and a terminal."""

    def __init__(self, sandbox: CliSandbox, scenario: Scenario, folder: Path) -> None:
        self.sandbox = sandbox
        self.scenario = scenario
        self.stop = folder / "stop"
        self.scenario.gpus(2).when_registered(folder / "pid", 0, util=90, memory_mib=4000).write()
        sandbox.write("train.py", WORKS.format(pid=str(folder / "pid"), stop=str(self.stop)))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.sandbox.home),
            "LC_ALL": "C.UTF-8",
            **self.sandbox.environment,
        }

    def run(self) -> str:
        """Start the run; returns its id."""
        return self.sandbox.detached("train.py", "--no-require-gpu").name

    def top(self, terminal: Terminal, *words: str, **variables: str) -> None:
        """Start `gpuproof top` on a terminal."""
        terminal.run([*TOP, *words], {**self.environment, **variables}, self.sandbox.project)

    def status(self, run: str) -> str:
        return self.sandbox.state(self.sandbox.runs / run)["status"]


@pytest.fixture
def machine(sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    scenario = Scenario(tmp_path / "gpus.txt")
    sandbox.environment.update(scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    if "PYTHONPATH" in os.environ:
        sandbox.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Machine(sandbox, scenario, tmp_path)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    pytest.importorskip("textual", reason='needs Textual: pip install "gpuproof[top]"')
    with Terminal() as found:
        yield found


def test_a_run_is_shown_until_its_end_and_the_terminal_is_restored(
    machine: Machine, terminal: Terminal
) -> None:
    run = machine.run()
    machine.top(terminal, run)
    shown = terminal.wait_for(r"\b0 +90% [\s\S]*\b1 +0% .*not used[\s\S]*epoch \d+ \u00e9")
    assert shown.startswith(f"{run} \u00b7 InProgress (Training) \u00b7 local\n")
    assert "3.9/22.5" in shown
    assert max(map(len, shown.splitlines())) <= 80
    terminal.keys("l")
    terminal.wait_for(lambda text: "epoch" not in text)
    machine.stop.touch()
    shown = terminal.wait_for("The run has ended")
    assert "verdict: used" in shown
    terminal.keys("q")
    terminal.wait_for("ended with 0")
    assert terminal.is_restored()


def test_the_stop_key_stops_the_run_after_a_question(machine: Machine, terminal: Terminal) -> None:
    run = machine.run()
    machine.top(terminal, run)
    terminal.wait_for("epoch")
    terminal.keys("s")
    terminal.wait_for(f"Stop {run}\\?")
    terminal.keys("n")
    terminal.wait_for(lambda text: "SIGTERM" not in text)
    assert machine.status(run) == "InProgress"
    terminal.keys("s")
    terminal.wait_for("SIGTERM")
    terminal.keys("y")
    terminal.wait_for(f"{run} \u00b7 Stopped")
    assert machine.status(run) == "Stopped"
    terminal.keys("q")
    terminal.wait_for("ended with 0")


def test_ctrl_c_leaves_the_run_alone_and_restores_the_terminal(machine: Machine, terminal: Terminal) -> None:
    run = machine.run()
    machine.top(terminal, run)
    terminal.wait_for("epoch")
    terminal.keys("?")
    terminal.wait_for("this help")
    terminal.keys("C-c")
    terminal.wait_for("ended with 130")
    assert terminal.is_restored()
    assert machine.status(run) == "InProgress"


def test_this_machine_is_shown_in_ascii_without_colours(machine: Machine, terminal: Terminal) -> None:
    machine.run()
    machine.top(terminal, NO_COLOR="1", PYTHONIOENCODING="ascii")
    shown = terminal.wait_for(r"A10G[\s\S]*\b0 +90%[\s\S]*not used[\s\S]*command")
    assert shown.isascii()
    assert not re.search(r"\x1b\[[\d;]*(?:3[0-8]|9[0-7])[;m]", terminal.screen(colours=True))
    terminal.keys("?")
    assert terminal.wait_for("this help").isascii()
    terminal.keys("x")
    terminal.wait_for(lambda text: "this help" not in text)
    terminal.keys("q")
    terminal.wait_for("ended with 0")
    assert terminal.is_restored()


def test_an_unknown_run_is_an_error_also_on_a_terminal(machine: Machine, terminal: Terminal) -> None:
    machine.top(terminal, "nope")
    shown = terminal.wait_for("ended with 2")
    assert "gpuproof: There are no runs on this machine." in shown


def test_without_a_terminal_one_snapshot_is_printed(machine: Machine) -> None:
    run = machine.run()

    def works() -> object:
        done = machine.sandbox.gpuproof("top", run)
        assert done.returncode == 0
        return re.search(r"^ +0 +90%", done.stdout, re.MULTILINE)

    # The run's first samples can be older than its script's first line.
    until(works, "the script works on a GPU")
    document = json.loads(machine.sandbox.gpuproof("top", "--json").stdout)
    (host,) = document["hosts"].values()
    assert [gpu["utilization"] for gpu in host["gpus"]] == [90, 0]
    assert host["gpus"][1]["waiting_for"]["kind"] == "unused"
    assert host["programs"][0]["gpus"] == [0]


def test_without_the_extra_the_error_has_the_command(
    machine: Machine, tmp_path: Path, terminal: Terminal
) -> None:
    # A finder that no longer finds the package, as if it were not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'textual' else find(name, *rest)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    machine.top(terminal, PYTHONPATH=path)
    shown = terminal.wait_for("ended with 2")
    assert 'pip install "gpuproof[top]"' in shown


def test_textual_is_not_imported_before_the_screen_is_drawn(machine: Machine) -> None:
    code = "import sys; from gpuproof.cli.main import main; main(['top', 'nope']); print('textual' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=machine.environment
    )
    assert done.stdout == "False\n", done.stderr
