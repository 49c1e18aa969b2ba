"""What lets hooks into the script's frameworks: a script without them, its errors and its environment stay as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuproof

SHIMS = Path(gpuproof.__file__).parent / "runtime" / "shims"
OLDEST = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))


def run(
    folder: Path, code: str, *, python: Path | str = sys.executable, hooks: bool = True
) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(SHIMS)}
    environment.pop("GPUPROOF_STEPS", None)
    if hooks:
        environment["GPUPROOF_STEPS"] = str(folder / "steps")
    return subprocess.run(
        [python, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


NEWEST = sorted(Path.home().glob(".pyenv/versions/3.13.*/bin/python3.13"))
PYTHONS = [sys.executable, *map(str, (*OLDEST[:1], *NEWEST[:1]))]
TOO_OLD = [
    str(path)
    for name in ("2.7", "3.6", "3.8")
    for path in sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python{name}"))[:1]
]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_script_without_a_framework_imports_nothing_more(tmp_path: Path, python: str) -> None:
    code = "import sys\nprint(*sorted(set(sys.modules) - {'sitecustomize'}))"
    assert run(tmp_path, code, python=python).stdout == run(tmp_path, code, python=python, hooks=False).stdout


@pytest.mark.parametrize("python", PYTHONS)
def test_hooks_see_a_module_after_it_has_run(tmp_path: Path, python: str) -> None:
    (tmp_path / "torch.py").write_text("value = 1\n")
    done = run(
        tmp_path,
        "import sys, sitecustomize, types\n"
        "package = types.ModuleType('gpuproof.runtime.steps.install')\n"
        "package.install = lambda hooks, module: print(hooks, module.value)\n"
        "for name in ('gpuproof', 'gpuproof.runtime', 'gpuproof.runtime.steps'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "sys.modules[package.__name__] = package\n"
        "import torch\n"
        "print(type(torch.__loader__).__name__, torch.__spec__.loader is torch.__loader__)\n",
        python=python,
    )
    assert done.stdout.splitlines() == ["torch_hooks 1", "SourceFileLoader True"], done.stderr


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("error", ["ImportError('no libcudart')", "ValueError('x')"])
def test_the_traceback_of_a_failed_import_is_the_same(tmp_path: Path, python: str, error: str) -> None:
    (tmp_path / "torch.py").write_text(f"raise {error}\n")
    with_hooks = run(tmp_path, "import torch\n", python=python)
    assert with_hooks.returncode == 1
    assert with_hooks.stderr == run(tmp_path, "import torch\n", python=python, hooks=False).stderr
    assert "sitecustomize" not in with_hooks.stderr


def test_a_framework_that_is_not_installed_is_missing_as_before(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    code = "try:\n    import pytorch_lightning.trainer.trainer\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    done = run(tmp_path, code, python=tmp_path / "bare" / "bin" / "python")
    assert done.stdout == "pytorch_lightning\n"


@pytest.mark.parametrize("hooks", [True, False])
def test_the_environments_own_sitecustomize_runs(tmp_path: Path, hooks: bool) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    packages = next((tmp_path / "bare" / "lib").glob("python*")) / "site-packages"
    (packages / "sitecustomize.py").write_text("import sys\nsys.own = __name__, __file__\n")
    code = "import sys, sitecustomize\nprint(*sys.own)\nprint(sitecustomize.__file__)"
    done = run(tmp_path, code, python=tmp_path / "bare" / "bin" / "python", hooks=hooks)
    own = str(packages / "sitecustomize.py")
    assert done.stdout.splitlines() == [f"sitecustomize {own}", own], done.stderr


def test_a_failing_hook_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")  # has nothing that the hooks look for
    done = run(tmp_path, "import torch\nprint('trained')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")


@pytest.mark.parametrize("python", TOO_OLD)
def test_an_older_python_runs_as_before(tmp_path: Path, python: str) -> None:
    (tmp_path / "torch.py").write_text("print('imported')")
    done = run(tmp_path, "import json, torch\n", python=python)
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported\n", "")
