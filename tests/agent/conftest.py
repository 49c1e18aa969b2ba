"""A container without Docker: the agent's file as entry point, in a private `/opt/ml` that SageMaker has filled."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.agent_job.archive import build_agent

# Enters the private /opt/ml, and replaces itself with the given command.
_ENTER = """
import ctypes, json, os, sys
from pathlib import Path
from gpuproof.agent.isolation.opt_ml_mounts import enter_private_contract
ml, read_only, uid, closed, command = json.loads(sys.argv[1])
enter_private_contract(Path(ml), ())
if read_only:
    libc = ctypes.CDLL(None, use_errno=True)
    for place in (b"/tmp", b"/dev"):
        assert libc.mount(place, place, None, ctypes.c_ulong(0x1000 | 0x4000), None) == 0
    assert libc.mount(None, b"/", None, ctypes.c_ulong(0x1000 | 0x20 | 0x1), None) == 0, ctypes.get_errno()
if uid:
    os.setgid(uid)
    os.setuid(uid)
del os.environ["PYTHONPATH"]
if closed:
    os.closerange(0, 2)
os.execvpe(command[0], command, os.environ)
"""
_PATIENCE = 300.0


@dataclass
class Ended:
    """What came of a container."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What the script printed: all lines but the verdict's."""
        return [
            line for line in self.stdout.decode().splitlines() if not line.startswith("gpuproof-verdict: ")
        ]

    @property
    def verdict(self) -> dict[str, Any]:
        last = self.stdout.decode(errors="replace").splitlines()[-1]
        assert last.startswith("gpuproof-verdict: "), last
        return json.loads(last.partition(" ")[2])


@dataclass
class Container:
    """One host's container.

    Args:
        ml: what will be its `/opt/ml`.
        agent: the agent's file.
        python: what `python3` is in it.
    """

    ml: Path
    agent: Path
    python: str = sys.executable
    kind: str = "training"
    environment: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """What the client has sent, as files on this machine."""
        return self.ml / ("input/data/code" if self.kind == "training" else "processing/gpuproof")

    @property
    def failure(self) -> str:
        return (self.ml / "output" / ("failure" if self.kind == "training" else "message")).read_text()

    def results(self, host: str = "algo-1") -> Path:
        where = "output/data/gpuproof" if self.kind == "training" else "processing/gpuproof-out"
        return self.ml / where / host

    @property
    def run(self) -> dict[str, Any]:
        return json.loads((self.results() / "run.json").read_text())

    def sagemaker(
        self, *, hosts: Sequence[str] = ("algo-1",), host: str = "algo-1", channels: Sequence[str] = ()
    ) -> None:
        """Write what SageMaker writes before it starts a container."""
        config = self.ml / ("input/config" if self.kind == "training" else "config")
        config.mkdir(parents=True, exist_ok=True)
        group = {
            "instance_group_name": "homogeneousCluster",
            "instance_type": "ml.g5.xlarge",
            "hosts": [*hosts],
        }
        resources = {
            "current_host": host,
            "hosts": [*hosts],
            "current_instance_type": "ml.g5.xlarge",
            "current_group_name": "homogeneousCluster",
            "instance_groups": [group],
            "network_interface_name": "eth0",
        }
        if self.kind == "processing":
            resources = {"current_host": host, "hosts": [*hosts]}
        (config / "resourceconfig.json").write_text(json.dumps(resources))
        if self.kind == "training":
            about = {
                "TrainingInputMode": "File",
                "S3DistributionType": "FullyReplicated",
                "RecordWrapperType": "None",
            }
            (config / "inputdataconfig.json").write_text(
                json.dumps(dict.fromkeys(("code", *channels), about))
            )
            (config / "hyperparameters.json").write_text(json.dumps({"epochs": "5"}))

    def send(self, files: Mapping[str, str | bytes], **job: Any) -> None:
        """Put agent, source tree and job where the client puts them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_agent(self.folder)
        self.pack(self.folder / "source.tar.gz", files)
        document = {
            "version": 1,
            "run_id": "digits-20260101-000000-abcd",
            "job_name": "digits",
            "kind": self.kind,
            "entry_point": next(iter(files), "train.py"),
            "python": "python3",
            "checkpoints": "/opt/ml/checkpoints",
            "isolation": "container",
            **job,
        }
        (self.folder / "job.json").write_text(json.dumps(document))

    def start(
        self,
        *words: str,
        first: bool = False,
        read_only: bool = False,
        uid: int = 0,
        closed: bool = False,
        agent: str | None = None,
        stdout: int | None = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """Start the container.

        Args:
            words: the agent's arguments, if not `--container FOLDER`.
            first: make the agent process 1 of its own process namespace.
            read_only: let nothing be written but `/tmp` and `/opt/ml`.
            uid: the user that it runs as.
            closed: start it without standard input and output.
            agent: where the agent's file lies in it, if not with the job.
        """
        inside = "/opt/ml/" + str(self.folder.relative_to(self.ml))
        file = agent or f"{inside}/gpuproof-agent.pyz"
        command = [self.python, file, *(words or ("--container", inside))]
        parameters = json.dumps([str(self.ml), read_only, uid, closed, command])
        prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] if first else []
        source = str(Path(__file__).parents[2] / "src")
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", _ENTER, parameters],
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/tmp",
                **{name: os.environ[name] for name in ("PIP_FIND_LINKS",) if name in os.environ},
                **self.environment,
                "PYTHONPATH": source,
            },
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> Ended:
        stdout, stderr = process.communicate(timeout=_PATIENCE)
        return Ended(process.returncode, stdout or b"", stderr.decode(errors="replace"))

    def carry_out(self, *words: str, **options: Any) -> Ended:
        """Start the container and wait for its end."""
        return self.end(self.start(*words, **options))

    @staticmethod
    def pack(archive: Path, files: Mapping[str, str | bytes]) -> None:
        """A `.tar.gz` with these files, whatever their names."""
        with tarfile.open(archive, "w:gz") as tar:
            for name, content in files.items():
                data = content.encode() if isinstance(content, str) else content
                member = tarfile.TarInfo(name)
                member.size = len(data)
                member.mode = 0o755
                tar.addfile(member, io.BytesIO(data))

    @staticmethod
    def zipped(files: Mapping[str, str]) -> bytes:
        """A wheel with these files."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return buffer.getvalue()

    def _take_agent(self, folder: Path) -> None:
        target = folder / "gpuproof-agent.pyz"
        target.unlink(missing_ok=True)
        target.write_bytes(self.agent.read_bytes())


def _namespaces() -> bool:
    return subprocess.run(["unshare", "--user", "--mount", "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as one file."""
    built = tmp_path_factory.mktemp("agent") / "gpuproof-agent.pyz"
    build_agent(built)
    return built


@pytest.fixture
def container(tmp_path: Path, agent_file: Path) -> Iterator[Container]:
    """A training job's container; set `kind` before `sagemaker()` for a processing job's."""
    if not _namespaces():
        pytest.skip("this host allows no private /opt/ml")
    ml = tmp_path / "ml"
    ml.mkdir()
    made = Container(ml, agent_file)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(300)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
