"""The `docker` program in a simulated instance: `info`, `login`, `pull`, `image inspect`, `run` and `kill`.

Messages and exit codes are Docker's: https://docs.docker.com/reference/cli/docker/.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuproof.agent.ec2_host.container.ecr_registry import ecr_image
from gpuproof.util.process_tree import adopt_orphans, end_descendants
from gpuproof_emulator.execution.instances.docker.container import enter_and_execute
from gpuproof_emulator.execution.instances.docker.run_options import Rejected, RunOptions, parse_run
from gpuproof_emulator.execution.instances.docker.settings import FILE, DockerSettings, SimulatedImage

_SETTINGS = Path("/run/simulation") / FILE
_STORE = Path("/var/lib/docker")
_ROOTS = Path("/run/docker-simulation")
_LAYERS = 3
_CHUNK = 1 << 20
_FAILED, _REFUSED = 1, 125
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class _DaemonError(Exception):
    """An error that Docker's daemon reports."""


def main(words: Sequence[str]) -> int:
    """Run `docker WORDS`; returns the exit code."""
    settings = DockerSettings.read(_SETTINGS)
    try:
        match list(words):
            case ["info", "--format", "{{json .}}"]:
                runtimes = ["runc", *(["nvidia"] if settings.has_nvidia_runtime else [])]
                print(json.dumps({"ServerVersion": "simulated", "Runtimes": {name: {} for name in runtimes}}))
            case ["login", "--username", user, "--password-stdin", registry]:
                _log_in(user, registry)
            case ["pull", image]:
                _pull(image, settings)
            case ["image", "inspect", "--format", "{{.Architecture}}", image]:
                print(_pulled(image, settings).architecture or _ARCHITECTURES[platform.machine()])
            case ["image", "inspect", "--format", '{{join .RepoDigests " "}}', image]:
                _pulled(image, settings)
                # Images have no content here: the digest is that of the name.
                repository = image.partition("@")[0].rpartition(":")[0] or image
                print(f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}")
            case ["kill", "--signal", name, container]:
                _kill(name, container)
            case ["run", *options]:
                return _run(options, settings)
            case _:
                print(f"the simulated docker does not implement: docker {' '.join(words)}", file=sys.stderr)
                return _REFUSED
    except _DaemonError as error:
        print(f"Error response from daemon: {error}", file=sys.stderr)
        return _FAILED
    return 0


def _log_in(user: str, registry: str) -> None:
    if user != "AWS" or not sys.stdin.read():
        raise _DaemonError(f"login attempt to https://{registry}/v2/ failed with status: 400 Bad Request")
    path = _config()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": {registry: {}}}))
    print("Login Succeeded")


def _config() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG", "/root/.docker"), "config.json")


def _pull(name: str, settings: DockerSettings) -> None:
    found, registry = settings.image(name), ecr_image(name)
    if registry is not None and registry.host not in _load(_config()).get("auths", {}):
        raise _DaemonError(f'Head "https://{registry.host}/v2/": no basic auth credentials')
    if found is None:
        raise _DaemonError(f"manifest for {name} not found: manifest unknown: Requested image not found")
    if found.error:
        raise _DaemonError(found.error)
    layers = [f"{number:012x}" for number in range(_LAYERS)]
    print(f"{name.rpartition(':')[2]}: Pulling from {name.partition('/')[2] or name}")
    for layer in layers:
        print(f"{layer}: Pulling fs layer", flush=True)
    for layer in layers:
        _write_layer(layer, found.size // _LAYERS)
        print(f"{layer}: Download complete\n{layer}: Pull complete", flush=True)
    store = _STORE / "images.json"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps({**_load(store), name: True}))
    print(f"Status: Downloaded newer image for {name}\n{name}")


def _write_layer(layer: str, size: int) -> None:
    """Write the bytes of a layer, in the way of which a full disk shows."""
    path = _STORE / "layers" / layer
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for start in range(0, size, _CHUNK):
                file.write(bytes(min(_CHUNK, size - start)))
    except OSError as error:
        path.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise _DaemonError(f"write /var/lib/docker/tmp/GetImageBlob{layer}: {reason}") from error


def _pulled(name: str, settings: DockerSettings) -> SimulatedImage:
    found = settings.image(name)
    if found is None or name not in _load(_STORE / "images.json"):
        raise _DaemonError(f"No such image: {name}")
    return found


def _kill(name: str, container: str) -> None:
    try:
        process = int((_ROOTS / container / "process").read_text())
        os.kill(process, signal.Signals[name])
    except (OSError, ValueError) as error:
        raise _DaemonError(f"cannot kill container: {container}: No such container: {container}") from error
    print(container)


def _run(words: Sequence[str], settings: DockerSettings) -> int:
    try:
        options = parse_run(words)
        image = _pulled(options.image, settings)
        if options.gpus and not settings.has_nvidia_runtime:
            raise _DaemonError('could not select device driver "" with capabilities: [[gpu]].')
        folder = _ROOTS / options.name
        try:
            (folder / "root").mkdir(parents=True)
        except FileExistsError:
            raise _DaemonError(f'Conflict. The container name "/{options.name}" is already in use.') from None
    except Rejected as rejected:
        print(f"docker: {rejected}\nSee 'docker run --help'.", file=sys.stderr)
        return _REFUSED
    except _DaemonError as error:
        print(f"docker: Error response from daemon: {error}", file=sys.stderr)
        return _REFUSED
    return _run_container(folder, options, image, settings)


def _run_container(folder: Path, options: RunOptions, image: SimulatedImage, settings: DockerSettings) -> int:
    adopt_orphans()
    process = os.fork()
    if process == 0:
        try:
            enter_and_execute(folder / "root", options, image, settings)
        except BaseException:  # noqa: BLE001 - the forked child must not return
            traceback.print_exc()
        os._exit(_REFUSED)
    (folder / "process").write_text(str(process))

    def forward(number: int, _: Any) -> None:
        os.kill(process, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    end_descendants()
    for path in (folder / "process", folder / "root", folder):
        path.unlink() if path.is_file() else path.rmdir()
    return code if code >= 0 else 128 - code


def _load(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
