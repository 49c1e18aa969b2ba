"""Calls of the docker CLI, and the checks of what an image job needs on the instance."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any, Callable

from gpuproof.agent.ec2_host.transfer.aws_cli import Wait

_STEP_S = 0.2
_PAUSE_S = 1.0
_TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-runtime")
_OTHER_AMI = "Use an AMI that has it (AWS's Deep Learning AMIs have Docker and the NVIDIA Container Toolkit), or remove ec2: ami."

OnLine = Callable[[str], None]
"""Called with each line that a program prints."""


class ContainerFailed(Exception):
    """The image, or a container of it, cannot be used; the message has what Docker printed."""


class DockerFailed(Exception):
    """A call of the docker CLI failed; the message is what it printed last."""


class Docker:
    """The docker CLI of this instance.

    Args:
        wait: called while a program runs, and between attempts.
        environment: its variables; None for those of this program.
        clock: seconds, of a monotonic clock.
    """

    def __init__(
        self,
        wait: Wait,
        environment: dict[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wait = wait
        self._environment = environment
        self._clock = clock

    def run(
        self,
        *words: str,
        content: bytes | None = None,
        seconds: float = 60.0,
        on_line: OnLine | None = None,
    ) -> str:
        """Run `docker WORDS`, and return what it printed.

        Args:
            seconds: how long it may take.
            on_line: called with each line of the output as it comes.

        Raises:
            DockerFailed: it failed, could not be started, or took too long.
        """
        end = self._clock() + seconds
        try:
            process = subprocess.Popen(
                ["docker", *words],
                stdin=subprocess.PIPE if content is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )
        except OSError as error:
            raise DockerFailed(f"docker cannot be started: {error}") from error
        lines = _Lines(on_line)
        try:
            while True:
                try:
                    output, _ = process.communicate(content, timeout=_STEP_S)
                    break
                except subprocess.TimeoutExpired as so_far:
                    content = None  # it is being sent
                    lines.add(so_far.output or b"")
                self._wait(0.0)
                if self._clock() >= end:
                    raise DockerFailed(f"docker {words[0]} did not end within {seconds:.0f} s")
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        lines.add(output, is_last=True)
        text = output.decode(errors="replace").strip()
        if process.returncode:
            raise DockerFailed(
                _last_line(text) or f"docker {words[0]} ended with status {process.returncode}"
            )
        return text

    def check(self, seconds: float, *, with_gpus: bool) -> None:
        """Check that Docker answers, and that it can give GPUs to containers.

        Args:
            seconds: how long to wait for Docker, which starts while the instance boots.
            with_gpus: whether the container needs GPUs.

        Raises:
            ContainerFailed: it cannot run the job.
        """
        if shutil.which("docker") is None:
            raise ContainerFailed(f"the job has a container image, but the AMI has no Docker. {_OTHER_AMI}")
        end = self._clock() + seconds
        while True:
            try:
                info = _object(self.run("info", "--format", "{{json .}}"))
                break
            except DockerFailed as failed:
                if self._clock() >= end:
                    raise ContainerFailed(
                        f"Docker did not answer within {seconds:.0f} s: {failed}"
                    ) from failed
            self._wait(_PAUSE_S)
        has_runtime = "nvidia" in (info.get("Runtimes") or {})
        if with_gpus and not has_runtime and not any(map(shutil.which, _TOOLKIT)):
            raise ContainerFailed(
                "the job's container needs GPUs, but the AMI has no NVIDIA Container Toolkit: Docker knows no runtime "
                f"'nvidia'. {_OTHER_AMI}"
            )

    def architecture(self, image: str) -> str:
        """The architecture of an image that was pulled, as Docker names it: `amd64` or `arm64`.

        Raises:
            DockerFailed: there is no such image.
        """
        return self.run("image", "inspect", "--format", "{{.Architecture}}", image)

    def digest(self, image: str) -> str:
        """The SHA-256 digest by which its registry knows an image that was pulled, in hexadecimal; empty if there is none.

        Raises:
            DockerFailed: there is no such image.
        """
        names = self.run("image", "inspect", "--format", '{{join .RepoDigests " "}}', image).split()
        # The same image may have been pulled from several repositories.
        own = [name for name in names if image.startswith(name.partition("@")[0])]
        return next((name.partition("@sha256:")[2] for name in own), "")


class _Lines:
    """Splits growing output into lines, of which each is reported once."""

    def __init__(self, on_line: OnLine | None) -> None:
        self._on_line = on_line
        self._done = 0

    def add(self, output: bytes, *, is_last: bool = False) -> None:
        """Report the complete lines of the whole output so far; at its end, all."""
        if self._on_line is None:
            return
        end = len(output) if is_last else output.rfind(b"\n") + 1
        if end <= self._done:
            return
        new, self._done = output[self._done : end], end
        for line in new.decode(errors="replace").splitlines():
            self._on_line(line)


def _last_line(text: str) -> str:
    return " ".join((text.splitlines() or [""])[-1].split())


def _object(text: str) -> dict[str, Any]:
    """The JSON object in an output, which may have warnings before it."""
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
