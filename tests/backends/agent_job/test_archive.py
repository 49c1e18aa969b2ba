"""The agent as one file."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest

from gpuproof.backends.agent_job import archive as room
from gpuproof.backends.agent_job.archive import agent_file, build_agent

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


def interpreters() -> Iterator[object]:
    """One Python of each version that this machine has, the others as skipped."""
    for version in VERSIONS:
        python = _python(version)
        reason = f"no Python {version} on this machine"
        yield pytest.param(python, id=version, marks=() if python else pytest.mark.skip(reason=reason))


def _python(version: str) -> str | None:
    candidates = [shutil.which(f"python{version}")]
    candidates += sorted(
        str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    )
    candidates += sorted(
        str(path)
        for path in Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}")
    )
    return next((path for path in reversed(candidates) if path and _answers(path, version)), None)


def _answers(python: str, version: str) -> bool:
    # A shim of pyenv is there for versions that are not active, and fails.
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


INTERPRETERS = list(interpreters())


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_file(tmp_path_factory.mktemp("cache"))


def names(agent: Path) -> list[str]:
    with zipfile.ZipFile(agent) as archive:
        return archive.namelist()


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    build_agent(tmp_path / "one.pyz")
    build_agent(tmp_path / "two.pyz")
    assert (tmp_path / "one.pyz").read_bytes() == (tmp_path / "two.pyz").read_bytes()


def test_it_is_built_once(tmp_path: Path) -> None:
    built = agent_file(tmp_path)
    before = built.stat()
    assert agent_file(tmp_path) == built
    assert built.stat().st_mtime_ns == before.st_mtime_ns
    assert list(tmp_path.iterdir()) == [built]


def test_it_is_built_again_when_a_source_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "one.py"
    source.write_text("")
    monkeypatch.setattr(room, "_sources", lambda: iter([("gpuproof/agent/one.py", source)]))
    first = agent_file(tmp_path / "cache")
    source.write_text("x = 1")
    assert agent_file(tmp_path / "cache") != first


def test_a_version_of_gpuproof_that_runs_at_the_same_time_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = tmp_path / "one.py", tmp_path / "cache"
    monkeypatch.setattr(room, "_sources", lambda: iter([("gpuproof/agent/one.py", source)]))

    def build(version: int) -> Path:
        source.write_text(f"VERSION = {version}\n")
        os.utime(source, (version, version))
        return agent_file(cache)

    first, second = build(1), build(2)
    assert {*cache.iterdir()} == {first, second}
    for path in (first, second):
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    before = first.stat().st_mtime_ns
    assert build(1) == first
    # The second has not been used for two days.
    assert {build(3), first} == {*cache.iterdir()}
    assert first.stat().st_mtime_ns == before


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build_agent(tmp_path / "agent.pyz", [("gpuproof/agent/gone.py", tmp_path / "gone.py")])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_any_moment_of_a_build_is_ctrl_c_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("ONE = 1\n")
    moments, unraisable = 0, []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        while interrupted_at(moments, tmp_path / "a.pyz", source):
            assert [path.name for path in tmp_path.iterdir()] == ["one.py"]
            moments += 1
    finally:
        sys.unraisablehook = before
    assert moments > 100
    assert unraisable == []
    assert names(tmp_path / "a.pyz")[-2:] == ["gpuproof/one.py", "gpuproof/one.pyc"]


def interrupted_at(moment: int, destination: Path, source: Path) -> bool:
    """Build with KeyboardInterrupt at the zipfile module's line number `moment` of those that it runs; False: there was none."""
    left = moment

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal left
        if frame.f_globals.get("__name__") != "zipfile":
            return None
        if event == "line":
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        build_agent(destination, [("gpuproof/one.py", source)])
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(earlier)
    return False


def test_it_contains_the_packages_of_the_agent_and_no_others(agent: Path) -> None:
    tops = {"/".join(name.split("/")[:2]).removesuffix("c") for name in names(agent)}
    assert tops == {
        "__main__.py",
        "pynvml.py",
        "gpuproof/__init__.py",
        "gpuproof/agent",
        "gpuproof/findings.py",
        "gpuproof/gpu",
        "gpuproof/runtime",
        "gpuproof/notebook",
        "gpuproof/serve",
        "gpuproof/terminal",
        "gpuproof/util",
        "gpuproof/version.py",
        "gpuproof/watch",
    }


def test_every_source_is_there_beside_its_bytecode(agent: Path) -> None:
    found = names(agent)
    sources = [name for name in found if name.endswith(".py")]
    tables = [name for name in found if name.endswith(".csv")]
    assert sorted(found) == sorted([*sources, *(f"{name}c" for name in sources), *tables])


def test_it_holds_no_path_of_this_machine(agent: Path) -> None:
    with zipfile.ZipFile(agent) as archive:
        for name in archive.namelist():
            assert str(Path(room.__file__).parents[3]).encode() not in archive.read(name), name


def test_it_is_small_enough_to_travel(agent: Path) -> None:
    # With `watch`, the text of verdicts and the notebook extension, which serve images that install nothing else.
    assert agent.stat().st_size < 3.5 * 2**20


def test_all_of_it_is_python_3_9(agent: Path) -> None:
    with zipfile.ZipFile(agent) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                ast.parse(archive.read(name), name, feature_version=(3, 9))


def test_a_plain_user_may_run_it(agent: Path) -> None:
    assert os.access(agent, os.X_OK)
    assert agent.stat().st_mode & 0o777 == 0o755


@pytest.mark.slow
@pytest.mark.parametrize("python", INTERPRETERS)
def test_every_python_runs_it_apart_from_what_is_around(agent: Path, tmp_path: Path, python: str) -> None:
    (tmp_path / "gpuproof").mkdir()
    (tmp_path / "gpuproof" / "__init__.py").write_text("raise SystemExit('the wrong gpuproof')")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    done = subprocess.run(
        [python, "-I", agent],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: gpuproof-agent RUN_FOLDER [--lock-fd N]")


@pytest.mark.slow
@pytest.mark.parametrize("python", INTERPRETERS)
def test_every_python_can_import_all_of_it(agent: Path, tmp_path: Path, python: str) -> None:
    modules = [
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for name in names(agent)
        # What is carried for scripts is a search path of its own, no package.
        if name.endswith(".py")
        and name != "__main__.py"
        and "/shims/" not in name
        and not name.endswith("/__main__.py")
    ]
    code = f"import sys; sys.path.insert(0, {str(agent)!r})\nfor name in {modules!r}: __import__(name)\n"
    code += "print(sys.modules['gpuproof.agent.main'].__file__)"
    done = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(agent))


def test_the_python_that_built_it_takes_the_bytecode(agent: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(agent)!r}); import gpuproof.agent.paths as p; print(p.__cached__, p.__spec__.loader.get_filename('gpuproof.agent.paths'))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip().endswith("paths.pyc"), done.stderr
