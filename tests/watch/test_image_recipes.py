"""The recipes of docs/watch-images.md: their words are executed as process 1 of a container, with the oldest Python."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuproof.backends.agent_job.archive import build_agent
from gpuproof.cli.serving.agent import dockerfile_lines
from support.local_container import skip_without_namespaces, start_container
from support.nvml_stub import SCENARIO_VARIABLE, Scenario

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "watch-images.md").read_text()
OLDEST = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))
PYTHON = str(OLDEST[0]) if OLDEST else sys.executable
AGENT = "gpuproof-agent.pyz"
TRAINS = """
import os, sys, time
assert os.getpid() != 1
print(sys.version_info[:2], *sys.argv[1:], flush=True)
open("pid", "w").write(str(os.getpid()))
looks = os.path.getsize("looks")
while os.path.getsize("looks") < looks + 8:
    time.sleep(0.02)
"""
WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
signal.pause()
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


DOCKERFILE, INIT_DOCKERFILE = blocks("dockerfile")
(JOB,) = [yaml.safe_load(block) for block in blocks("yaml")]
POD = JOB["spec"]["template"]["spec"]


class Images:
    """What the recipes need: the agent file, a script, a GPU, and containers."""

    def __init__(self, folder: Path, agent: Path, home: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        shutil.copy(agent, folder / AGENT)
        # `python` and `python3` of the image.
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("python", "python3"):
            (self.programs / name).write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
            (self.programs / name).chmod(0o755)
        self.log = folder / "termination-log"
        self.log.touch()
        looks = self.work / "looks"
        self.scenario = Scenario(folder / "gpus.txt").gpu(0).seen(looks)
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            SCENARIO_VARIABLE: str(self.scenario.path),
            "LD_LIBRARY_PATH": str(home),
        }
        self.processes: list[subprocess.Popen[str]] = []

    def script(self, code: str, name: str = "train.py", *, uses_gpu: bool = True) -> None:
        (self.work / name).write_text(code)
        if uses_gpu:
            self.scenario.when_registered(self.work / "pid", visible=False)
        self.scenario.write()

    def start(self, argv: Sequence[str], mounts: Mapping[str, Path]) -> subprocess.Popen[str]:
        root = self.folder / f"root-{len(self.processes)}"
        root.mkdir()
        process = start_container(argv, root, mounts=mounts, folder=self.work, environment=self.environment)
        self.processes.append(process)
        return process

    def run(self, argv: Sequence[str], mounts: Mapping[str, Path]) -> tuple[int, str, str]:
        process = self.start(argv, mounts)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip_without_namespaces()
    built = tmp_path_factory.mktemp("agent") / AGENT
    build_agent(built)
    return built


@pytest.fixture
def images(tmp_path: Path, agent_file: Path, nvml_home: Path) -> Iterator[Images]:
    made = Images(tmp_path, agent_file, nvml_home)
    yield made
    for process in made.processes:
        process.kill()
        process.communicate()


def image(dockerfile: str, context: Path) -> tuple[list[str], list[str], dict[str, Path]]:
    """Entry point, command and files of an image."""
    entry: list[str] = []
    command: list[str] = []
    files: dict[str, Path] = {}
    for line in dockerfile.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "COPY":
            source, target = rest.split()
            files[target] = context / source
        elif instruction == "ENTRYPOINT":
            entry, command = json.loads(rest), []
        elif instruction == "CMD":
            command = json.loads(rest)
        else:
            assert instruction == "FROM", line
    return entry, command, files


def test_the_command_prints_the_lines_of_the_page():
    assert "gpuproof agent --watch -o gpuproof-agent.pyz" in PAGE
    assert "\n".join(dockerfile_lines(Path(AGENT), watch=True)) in DOCKERFILE


def test_the_image_of_the_dockerfile_proves_its_command(images: Images):
    images.script(TRAINS)
    entry, command, files = image(DOCKERFILE, images.folder)
    code, output, errors = images.run([*entry, *command], files)
    assert code == 0, errors
    assert output == f"{sys.version_info[:2] if not OLDEST else (3, 9)}\n"
    assert "used" in errors
    assert "1 of 1 GPU worked" in errors


def test_another_command_takes_the_place_of_cmd(images: Images):
    images.script(TRAINS, "eval.py")
    entry, _, files = image(DOCKERFILE, images.folder)
    replaced = re.search(r"`docker run IMAGE (.*?)`", PAGE)
    assert replaced is not None
    code, _, errors = images.run([*entry, *shlex.split(replaced[1])], files)
    assert code == 0, errors


def test_docker_stop_reaches_the_command(images: Images):
    images.script(WAITS, uses_gpu=False)
    entry, command, files = image(DOCKERFILE, images.folder)
    process = images.start([*entry, *command], files)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert process.wait(300) == 5


def test_the_docker_run_line_works_with_an_image_as_it_is(images: Images):
    images.script(TRAINS)
    (line,) = re.findall(r"^docker run .*$", PAGE, re.MULTILINE)
    words = shlex.split(line)
    words, argv = words[: words.index("IMAGE")], words[words.index("IMAGE") + 1 :]
    source, target, mode = words[words.index("-v") + 1].split(":")
    assert (source, mode) == (f"$PWD/{AGENT}", "ro")
    entry = words[words.index("--entrypoint") + 1]
    code, _, errors = images.run([entry, *argv], {target: images.folder / AGENT})
    assert code == 0, errors
    assert "1 of 1 GPU worked" in errors


def pod_mounts(container: Mapping[str, Any], volumes: Mapping[str, Path]) -> dict[str, Path]:
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}


def run_pod(images: Images) -> tuple[int, str, str]:
    """Run the containers of the job's pod as the kubelet does; what its main container came to."""
    volumes: dict[str, Path] = {}
    for volume in POD["volumes"]:
        assert volume.keys() == {"name", "emptyDir"}
        volumes[volume["name"]] = images.folder / volume["name"]
        volumes[volume["name"]].mkdir()
    (init,) = POD["initContainers"]
    _, _, files = image(INIT_DOCKERFILE, images.folder)
    code, _, errors = images.run(init["command"], {**files, **pod_mounts(init, volumes)})
    assert code == 0, errors
    (main,) = POD["containers"]
    assert main["resources"]["limits"] == {"nvidia.com/gpu": 1}
    mounts = {**pod_mounts(main, volumes), "/dev/termination-log": images.log}
    return images.run([*main["command"], *main["args"]], mounts)


def test_the_job_of_kubernetes_ends_with_the_verdict_as_its_message(images: Images):
    images.script(TRAINS)
    code, _, errors = run_pod(images)
    assert code == 0, errors
    assert images.log.read_text().startswith("gpuproof: used: 1 of 1 GPU worked")


def test_a_job_that_used_no_gpu_fails_at_once_with_the_reason(images: Images):
    images.script("print('cpu')", uses_gpu=False)
    code, output, _ = run_pod(images)
    assert (code, output) == (4, "cpu\n")
    assert images.log.read_text().startswith(
        "gpuproof: cpu-only: No process of the job opened a GPU. The job ran on the CPU only."
    )
    (rule,) = JOB["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == [code]
    assert rule["onExitCodes"]["containerName"] == POD["containers"][0]["name"]
