"""The library where neither framework, nor GPUproof, nor anything else is installed: carried by the agent's one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import agent_file
from support.runtime_script import Script

pytestmark = pytest.mark.slow

SHIMS = "gpuproof/runtime/shims"
OLDEST = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_file(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=[sys.executable, *OLDEST[:1]], ids=["this Python", *(["3.9"] if OLDEST else [])])
def bare(request: pytest.FixtureRequest, script: Script, agent: Path, tmp_path: Path) -> Script:
    made = [str(request.param), "-m", "venv", "--without-pip", "--symlinks", str(tmp_path / "bare")]
    subprocess.run(made, check=True)
    script.python = str(tmp_path / "bare" / "bin" / "python")
    script.environment["PYTHONPATH"] = f"{agent}/{SHIMS}"
    return script


def test_everything_that_needs_no_framework_works(bare: Script) -> None:
    output = bare("""
import gpuproof.runtime as rt
from gpuproof import runtime
assert runtime is rt
print(rt.setup(seed=1, threads=1, mixed_precision="auto").precision.dtype)
print(rt.paths.model.name, rt.hyperparameters(), rt.is_first_rank())
state = {"n": 1, "list": [1.5]}
kept = rt.checkpoint(state=state, folder="kept")
for epoch in kept.epochs(2):
    state["n"] += 1
print(rt.checkpoint(state={}, folder="kept").epoch)
""")
    assert output.splitlines() == ["float32", "model {} True", "2"]


def test_calls_that_need_a_framework_raise(bare: Script) -> None:
    output = bare("""
import gpuproof.runtime as rt
for call in (rt.device, rt.strategy, rt.distributed, lambda: rt.save(object())):
    try:
        call()
    except Exception as error:
        print(type(error).__name__)
""")
    assert output.split() == ["NoFramework", "ModuleNotFoundError", "ModuleNotFoundError", "TypeError"]


def test_an_installed_gpuproof_precedes_the_shim(script: Script, agent: Path) -> None:
    output = script(
        "import gpuproof, gpuproof.runtime as rt, pynvml\nprint(gpuproof.TrainingJob.__name__, gpuproof.__version__)\n"
        "print(any('.pyz' in str(module.__file__) for module in (gpuproof, rt, pynvml)))",
        PYTHONPATH=f"{agent}/{SHIMS}",
    )
    assert output == "TrainingJob 0.1.0\nFalse\n"


def test_a_users_own_module_of_that_name_goes_before_both(script: Script, agent: Path) -> None:
    (script.folder / "gpuproof.py").write_text("MINE = 1")
    output = script("import gpuproof; print(gpuproof.MINE)", PYTHONPATH=f"{agent}/{SHIMS}")
    assert output == "1\n"


def test_the_agent_imports_nothing_of_it(agent: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(agent)!r}); import gpuproof.agent.main, gpuproof.agent.runner, "
        "gpuproof.agent.artifacts.results, gpuproof.agent.monitor; print([m for m in sys.modules if 'runtime' in m and 'gpuproof' in m])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
