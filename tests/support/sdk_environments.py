"""Virtual environments for packages that need one of their own: both SageMaker SDKs and the AWS CLI.

Each is described by a file of pinned versions in `tests/environments` and made once, beside the environment that the tests
run in.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]
_INSTALL_ATTEMPTS = 3
"""What an attempt has downloaded is kept for the next one."""


def interpreter_of(name: str) -> Path:
    """The Python of the environment with that name (`sagemaker-v2`, `sagemaker-v3`, `awscli`), created if necessary."""
    pins = _ROOT / "tests" / "environments" / f"{name}.txt"
    digest = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = Path(sys.prefix) / "environments"
    home.mkdir(exist_ok=True)
    folder = home / f"{name}-{digest}"
    # Several test processes may create it at the same time.
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, pins)
            (folder / ".complete").touch()
    return folder / "bin" / "python"


def _make(folder: Path, pins: Path) -> None:
    setup = _setup_tool()
    environment = setup.uv_environment(dict(os.environ))
    uv = setup.recent_uv(shutil.which("uv")) or setup.uv_of(Path(sys.prefix), environment)
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], environment)
    python = str(folder / "bin" / "python")
    _run(
        [uv, "pip", "install", "--quiet", "--python", python, "-r", str(pins)], environment, _INSTALL_ATTEMPTS
    )


def _run(command: list[str], environment: dict[str, str], attempts: int = 1) -> None:
    for left in reversed(range(attempts)):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        assert left > 0, f"{command}\n{done.stdout}{done.stderr}"


def _setup_tool() -> ModuleType:
    """The module `tools/setup_venv.py`, which has the settings of pip and uv on this machine."""
    spec = importlib.util.spec_from_file_location("setup_venv", _ROOT / "tools" / "setup_venv.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
