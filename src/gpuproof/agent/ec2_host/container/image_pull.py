"""Pulls a job's image with the credentials of the instance's role."""

from __future__ import annotations

import os
import platform
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

from gpuproof.agent.ec2_host.container.docker_cli import ContainerFailed, Docker, DockerFailed
from gpuproof.agent.ec2_host.container.ecr_registry import EcrImage, ecr_image
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, AwsFailed, Wait

PULL_LIMIT_S = 3600.0
"""Seconds for a pull; the limit of the job ends it earlier."""

_REPORT_S = 10.0
_LONGEST_PAUSE_S = 15.0
_REFUSED_S = 60.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FULL = "no space left on device"
# What no repetition changes; Docker reports no codes. Sources: the messages of docker pull in
# https://github.com/moby/moby and https://github.com/distribution/distribution/blob/main/docs/content/spec/api.md; with containerd's
# image store: https://github.com/aws/aws-lambda-base-images/issues/220, https://github.com/aws-samples/bedrock-access-gateway/issues/114
_FINAL = (_FULL, "manifest unknown", "not found", "no matching manifest", "invalid reference format")
_REFUSED = (
    "denied",
    "unauthorized",
    "no basic auth credentials",
    "not authorized",
    "403 forbidden",
    "insufficient_scope",
)
_LAYER_STATES = ("Download complete", "Pull complete", "Already exists")


class ImagePull:
    """The pull of one image.

    Args:
        wait: called meanwhile.
        retry_for: seconds for which a pull that failed is repeated.
        credentials: a folder in memory, which has the password while the image is pulled.
        report: called with a line for the user from time to time.
        clock: seconds, of a monotonic clock.
    """

    def __init__(
        self,
        image: str,
        aws: AwsCli,
        wait: Wait,
        retry_for: float,
        credentials: Path,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._image = image
        self._aws = aws
        self._wait = wait
        self._retry_for = retry_for
        self._credentials = credentials
        self._report = report
        self._clock = clock
        self._layers: dict[str, bool] = {}
        self._next_report = 0.0

    def run(self) -> str:
        """Log in, pull the image, and check that it is for this processor; returns its digest, empty if it is unknown.

        Raises:
            ContainerFailed: it cannot be pulled, or is for another processor.
        """
        start = self._clock()
        found = ecr_image(self._image)
        try:
            docker = self._logged_in(found) if found is not None else Docker(self._wait, clock=self._clock)
            self._report(f"pulling {self._image}")
            self._pull(docker, start + PULL_LIMIT_S)
        finally:
            shutil.rmtree(self._credentials, ignore_errors=True)
        self._report(f"pulled {self._image} in {self._clock() - start:.0f} s")
        self._check_architecture(docker)
        with suppress(DockerFailed):  # only the receipt needs it
            return docker.digest(self._image)
        return ""

    def _logged_in(self, image: EcrImage) -> Docker:
        """The docker CLI with the password of a registry.

        Raises:
            ContainerFailed: the role may not read it, or the registry rejects it.
        """
        try:
            password = self._aws.run("ecr", "get-login-password", "--region", image.region)
        except AwsFailed as failed:
            hint = _permission_hint(image) if failed.code.startswith("AccessDenied") else ""
            raise ContainerFailed(f"no password for the registry {image.host}: {failed}.{hint}") from failed
        self._credentials.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not the CLI's usual folder, which is on the disk.
        environment = {**os.environ, "DOCKER_CONFIG": str(self._credentials)}
        docker = Docker(self._wait, environment, self._clock)
        words = ("login", "--username", "AWS", "--password-stdin", image.host)
        try:
            docker.run(*words, content=password.strip().encode())
        except DockerFailed as failed:
            raise ContainerFailed(f"the registry {image.host} rejects the login: {failed}") from failed
        return docker

    def _pull(self, docker: Docker, end: float) -> None:
        start, pause = self._clock(), 1.0
        while True:
            left = max(1.0, end - self._clock())
            try:
                docker.run("pull", self._image, seconds=left, on_line=self._count)
            except DockerFailed as failed:
                text = str(failed)
                if self._is_final(text, self._clock() - start + pause) or self._clock() + pause >= end:
                    raise ContainerFailed(self._explain(text)) from failed
                self._report(f"pulling again in {pause:.0f} s: {text}")
            else:
                return
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _is_final(self, text: str, passed: float) -> bool:
        if any(word in text for word in _FINAL):
            return True
        # A new role's permissions take some seconds to arrive everywhere.
        limit = min(self._retry_for, _REFUSED_S) if _is_refusal(text) else self._retry_for
        return passed > limit

    def _explain(self, text: str) -> str:
        message = f"the image {self._image} cannot be pulled: {text}"
        if _FULL in text:
            return f"{message}. The root volume is too small for it: set ec2: volume_size."
        image = ecr_image(self._image)
        if _is_refusal(text):
            if image is None:
                return f"{message}. Its registry needs a login; only those of ECR are supported."
            return f"{message}.{_permission_hint(image)}"
        return message

    def _count(self, line: str) -> None:
        """Count the layers in the output of docker pull without a terminal, and report the progress."""
        layer, _, state = line.strip().partition(": ")
        if not state or " " in layer:
            return
        if state == "Pulling fs layer":
            self._layers.setdefault(layer, False)
        elif state in _LAYER_STATES:
            self._layers[layer] = True
        now = self._clock()
        if self._layers and now >= self._next_report:
            self._next_report = now + _REPORT_S
            done = sum(self._layers.values())
            self._report(f"pulling {self._image}: {done} of {len(self._layers)} layers downloaded")

    def _check_architecture(self, docker: Docker) -> None:
        here = _ARCHITECTURES.get(platform.machine(), platform.machine())
        try:
            found = docker.architecture(self._image)
        except DockerFailed as failed:
            raise ContainerFailed(
                f"the image {self._image} was pulled, but is not there: {failed}"
            ) from failed
        if found and found != here:
            raise ContainerFailed(
                f"the image {self._image} is for {found} processors, and this instance has {here}. "
                "Use an image or an instance type of the other architecture."
            )


def _is_refusal(text: str) -> bool:
    return any(word in text.lower() for word in _REFUSED)


def _permission_hint(image: EcrImage) -> str:
    return (
        f" The role of the instance must be allowed to pull from {image.host}: gpuproof iam policy --on ec2 --role prints "
        "the policy; a registry of another account must also allow it."
    )
