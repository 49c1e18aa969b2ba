"""requirements.txt is installed for the run alone, and never at the cost of the interpreter's framework.

Real pips in real virtual environments, with wheels of one file that are made here; no network.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuproof.agent.requirements.install import install_requirements, plan
from gpuproof.agent.requirements.pip_plan import (
    RequirementsConflict,
    RequirementsFailed,
    explain_conflict,
)

pytestmark = pytest.mark.slow

Write = Callable[..., Path]


def make_wheel(folder: Path, name: str, version: str, requires: Sequence[str] = ()) -> Path:
    module, dist = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}"
    path = folder / f"{dist}-py3-none-any.whl"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}.py", f"version = {version!r}\n")
        archive.writestr(
            f"{dist}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        archive.writestr(
            f"{dist}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{dist}.dist-info/RECORD", "")
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "torch", "2.0+cpu", ["numpy-like>=2"])
    make_wheel(folder, "torch", "2.1")
    make_wheel(folder, "numpy-like", "1.9")
    make_wheel(folder, "numpy-like", "2.0")
    make_wheel(folder, "numpy-like", "2.5")
    make_wheel(folder, "tensorflow-cpu", "2.21.0")
    make_wheel(folder, "tensorflow", "2.21.0")
    make_wheel(folder, "needs-tensorflow", "1.0", ["tensorflow"])
    make_wheel(folder, "needs-old-tensorflow", "1.0", ["tensorflow<2.20"])
    make_wheel(folder, "helper", "1.0", ["torch>=2.0", "base"])
    make_wheel(folder, "base", "3.1")
    make_wheel(folder, "greedy", "1.0", ["torch>=2.1"])
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> str:
    """An interpreter with a torch, a tensorflow-cpu and a pip."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    interpreter = str(folder / "bin" / "python")
    install = [interpreter, "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels]
    subprocess.run([*install, "torch==2.0+cpu", "numpy-like==2.0", "tensorflow-cpu"], check=True)
    return interpreter


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return tmp_path / "run" / "packages"


@pytest.fixture
def write(tmp_path: Path, wheels: Path) -> Write:
    def requirements(*lines: str) -> Path:
        path = tmp_path / "code" / "requirements.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["--no-index", f"--find-links {wheels}", *lines]) + "\n")
        return path

    return requirements


def installed(packages: Path) -> set[str]:
    return {path.name for path in packages.glob("*.py")} if packages.exists() else set()


def packages_of(python: str) -> str:
    return subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout


def test_what_is_missing_goes_into_the_runs_own_folder_and_nowhere_else(
    python: str, packages: Path, write: Write
) -> None:
    before = packages_of(python)
    pins = install_requirements(python, write("helper"), packages, io.BytesIO())
    assert {(pin.name, pin.version) for pin in pins} == {("helper", "1.0"), ("base", "3.1")}
    assert installed(packages) == {"helper.py", "base.py"}
    assert packages_of(python) == before


def test_what_was_installed_is_found_by_the_script(python: str, packages: Path, write: Write) -> None:
    install_requirements(python, write("helper"), packages, io.BytesIO())
    output = subprocess.run(
        [python, "-c", "import helper, torch; print(helper.version, torch.version)"],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert output.stdout == "1.0 2.0+cpu\n"


def test_nothing_is_done_when_everything_is_there(python: str, packages: Path, write: Write) -> None:
    log = io.BytesIO()
    assert install_requirements(python, write("torch>=2", "numpy-like"), packages, log) == []
    assert not packages.exists()


def test_an_empty_file_does_not_even_start_pip(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# nothing yet\n\n   # still nothing\n")
    assert (
        install_requirements("/no/such/python", tmp_path / "requirements.txt", packages, io.BytesIO()) == []
    )


def test_a_newer_package_beside_the_installed_one_is_brought_for_the_run(
    python: str, packages: Path, write: Write
) -> None:
    pins = install_requirements(python, write("numpy-like>=2.4"), packages, io.BytesIO())
    assert [(pin.name, pin.version) for pin in pins] == [("numpy-like", "2.5")]


def test_a_file_that_requires_another_torch_is_refused(python: str, packages: Path, write: Write) -> None:
    with pytest.raises(RequirementsConflict) as refusal:
        install_requirements(python, write("torch==2.1"), packages, io.BytesIO())
    assert "conflicts with the installed torch 2.0+cpu: it requires torch==2.1." in str(refusal.value)
    assert "--python" in str(refusal.value)
    assert not packages.exists()


def test_a_package_that_needs_another_torch_is_refused_by_name(
    python: str, packages: Path, write: Write
) -> None:
    with pytest.raises(
        RequirementsConflict, match=r"installed torch 2\.0\+cpu: greedy 1\.0 depends on torch>=2\.1"
    ):
        install_requirements(python, write("greedy"), packages, io.BytesIO())


def test_taking_away_what_the_framework_stands_on_is_refused(
    python: str, packages: Path, write: Write
) -> None:
    with pytest.raises(
        RequirementsConflict, match=r"torch 2\.0\+cpu \(which needs numpy-like>=2\): it requires numpy-like<2"
    ):
        install_requirements(python, write("numpy-like<2"), packages, io.BytesIO())


@pytest.mark.parametrize(
    "line", ["tensorflow", "tensorflow>=2.16", "tensorflow[and-cuda]", "needs-tensorflow"]
)
def test_an_installed_twin_counts_as_the_framework(line: str, python: str, write: Write) -> None:
    assert "tensorflow" not in {pin.name for pin in plan(python, write(line), io.BytesIO())}


@pytest.mark.parametrize("line", ["tensorflow==2.16", "tensorflow-gpu==2.10", "needs-old-tensorflow"])
def test_a_twin_of_another_version_is_refused(line: str, python: str, packages: Path, write: Write) -> None:
    with pytest.raises(
        RequirementsConflict, match=r"installed tensorflow-cpu 2\.21\.0 \(which counts as tensorflow"
    ):
        install_requirements(python, write(line), packages, io.BytesIO())


def test_a_framework_that_is_not_there_may_come(
    python: str, packages: Path, write: Write, wheels: Path
) -> None:
    make_wheel(wheels, "jax", "0.9")
    [pin] = plan(python, write("jax"), io.BytesIO())
    assert (pin.name, pin.version) == ("jax", "0.9")


def test_a_package_that_is_nowhere_fails_with_pips_last_words(
    python: str, packages: Path, write: Write
) -> None:
    log = io.BytesIO()
    with pytest.raises(RequirementsFailed, match="No matching distribution found for no-such-package"):
        install_requirements(python, write("no-such-package"), packages, log)
    assert b"No matching distribution found for no-such-package" in log.getvalue()


def test_an_invalid_requirement_line_fails_with_pips_message(
    python: str, packages: Path, write: Write
) -> None:
    with pytest.raises(RequirementsFailed, match="Invalid requirement"):
        install_requirements(python, write("import torch"), packages, io.BytesIO())


def test_the_log_shows_what_was_installed(python: str, packages: Path, write: Write) -> None:
    log = io.BytesIO()
    install_requirements(python, write("helper"), packages, log)
    assert b"Successfully installed base-3.1 helper-1.0" in log.getvalue()
    assert b"already satisfied" not in log.getvalue()


def test_relative_paths_and_nested_files_count_from_the_files_folder(
    python: str, packages: Path, tmp_path: Path
) -> None:
    code = tmp_path / "my code"
    (code / "deep").mkdir(parents=True)
    make_wheel(code, "local", "0.1")
    make_wheel(code / "deep", "nested", "0.2", ["inner"])
    make_wheel(code / "deep", "inner", "0.3")
    (code / "requirements.txt").write_text("./local-0.1-py3-none-any.whl\n-r deep/more.txt\n")
    (code / "deep" / "more.txt").write_text("--no-index\n--find-links=.\nnested\n")
    install_requirements(python, code / "requirements.txt", packages, io.BytesIO())
    assert installed(packages) == {"local.py", "nested.py", "inner.py"}


def test_hashes_are_checked(python: str, packages: Path, write: Write) -> None:
    [pin] = plan(python, write("base"), io.BytesIO())
    install_requirements(python, write(f"base==3.1 --hash={pin.hash}"), packages, io.BytesIO())
    assert installed(packages) == {"base.py"}
    with pytest.raises(RequirementsFailed, match="DO NOT MATCH THE HASHES"):
        install_requirements(python, write(f"base==3.1 --hash=sha256:{'0' * 64}"), packages, io.BytesIO())


def test_modules_of_the_user_do_not_stand_in_for_pythons_own(
    python: str, packages: Path, write: Write
) -> None:
    requirements = write("base")
    for name in ("logging", "pip", "json", "typing"):
        (requirements.parent / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    install_requirements(python, requirements, packages, io.BytesIO())
    assert installed(packages) == {"base.py"}


def test_settings_of_pip_that_mean_another_place_do_no_harm(
    python: str, packages: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packages_of(python)
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_FORCE_REINSTALL", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    install_requirements(python, write("helper"), packages, io.BytesIO())
    assert installed(packages) == {"helper.py", "base.py"}
    assert not (tmp_path / "elsewhere").exists()
    monkeypatch.undo()
    assert packages_of(python) == before


def test_pips_package_source_can_be_set_by_environment_alone(
    python: str, packages: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    (tmp_path / "requirements.txt").write_text("base\n")
    install_requirements(python, tmp_path / "requirements.txt", packages, io.BytesIO())
    assert installed(packages) == {"base.py"}


def test_an_interpreter_without_pip_borrows_the_one_that_ensurepip_carries(
    packages: Path, write: Write, tmp_path: Path
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    install_requirements(python, write("base"), packages, io.BytesIO())
    assert installed(packages) == {"base.py"}
    assert subprocess.run([python, "-c", "import pip"], capture_output=True).returncode != 0


def test_an_interpreter_without_pip_gets_the_advice_to_install_it(
    packages: Path, write: Write, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!{sys.executable}\nprint(\'{{"pip": null, "wheel": null, "found": {{}}, "bounds": []}}\')\n'
    )
    python.chmod(0o755)
    with pytest.raises(RequirementsFailed, match=r"has no pip.*-m ensurepip --upgrade"):
        install_requirements(str(python), write("base"), packages, io.BytesIO())


def test_an_interpreter_that_does_not_start_is_an_error(packages: Path, write: Write, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'libpython is missing' >&2\nexit 127\n")
    python.chmod(0o755)
    with pytest.raises(RequirementsFailed, match="could not be read: libpython is missing"):
        install_requirements(str(python), write("base"), packages, io.BytesIO())


def test_a_run_that_is_stopped_takes_pip_with_it(packages: Path, write: Write, tmp_path: Path) -> None:
    # The interpreter stands for a pip that never ends; it prints its process id first.
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -c ] && [ $# -eq 2 ]; then\n'
        '  echo \'{"pip": "25.0", "wheel": null, "found": {}, "bounds": []}\'\n'
        f"else\n  echo $$ > '{tmp_path}/pid'; echo started; exec sleep 1000\nfi\n"
    )
    python.chmod(0o755)

    class Stopped(Exception):
        pass

    class Log(io.BytesIO):
        def write(self, data: object) -> int:
            raise Stopped

    with pytest.raises(Stopped):
        install_requirements(str(python), write("base"), packages, Log())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_conflict_of_two_other_packages_is_not_attributed_to_the_framework() -> None:
    lines = [
        "The conflict is caused by:",
        "    The user requested a==1",
        "    b 2 depends on a>=2",
        "",
        "To fix",
    ]
    assert explain_conflict(lines, {"torch": "2.0"}, []) is None
    assert explain_conflict(["ERROR: No network"], {"torch": "2.0"}, []) is None
