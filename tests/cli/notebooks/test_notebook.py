"""`gpuproof notebook` as users type it, with the emulator as AWS: output, exit codes, signals, and what exists afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import CliSandbox, until

pytestmark = pytest.mark.slow

CREATE = ("notebook", "create", "nb", "--instance-type", "ml.g5.xlarge")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    """An AWS on whose notebook instances there is no Jupyter, which takes seconds to start."""
    environment = tmp_path_factory.mktemp("python") / "env"
    venv.create(environment, symlinks=True)
    python = str(environment / "bin" / "python3")
    with running_emulator(tmp_path_factory.mktemp("aws"), role=True, python=python) as running:
        yield running


@pytest.fixture
def cli(
    emulator: RunningEmulator, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CliSandbox]:
    """Commands with an empty account."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    cache = tmp_path_factory.getbasetemp() / "notebook-cli-cache"
    yield CliSandbox(home, project, {**emulator.credentials, "GPUPROOF_CACHE_DIR": str(cache)})
    emulator.reset()


def exists(emulator: RunningEmulator) -> tuple[dict[str, str], int]:
    """Notebook instances with their states, and the number of lifecycle configurations."""
    api = emulator.client("sagemaker")
    found = api.list_notebook_instances()["NotebookInstances"]
    configs = api.list_notebook_instance_lifecycle_configs()["NotebookInstanceLifecycleConfigs"]
    return {match["NotebookInstanceName"]: match["NotebookInstanceStatus"] for match in found}, len(configs)


def test_the_whole_life_on_the_command_line(cli: CliSandbox, emulator: RunningEmulator) -> None:
    made = cli.gpuproof(*CREATE)
    assert made.returncode == 0, made.stderr
    # The age of a price that is more than a year old stands between them.
    assert re.search(r"ml\.g5\.xlarge \(1 x A10G\) at \$1\.41 an hour.*, \$33\.84 a day", made.stderr)
    assert "stops after 1h in which no kernel and no GPU worked" in made.stderr
    assert "gpuproof notebook open nb" in made.stderr
    again = cli.gpuproof(*CREATE)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    listed = json.loads(cli.gpuproof("notebook", "list", "--json").stdout)
    assert [(notebook["name"], notebook["status"]) for notebook in listed["notebooks"]] == [
        ("nb", "InService")
    ]
    table = cli.gpuproof("notebook", "list").stdout
    assert "$34.07" in table  # 50 GB of storage are $0.23 a day
    assert cli.gpuproof("notebook", "stop", "nb").stdout == "nb: Stopped\n"
    opened = cli.gpuproof("notebook", "open", "--no-browser", "nb")
    assert opened.returncode == 5
    assert "gpuproof notebook start nb" in opened.stderr
    assert cli.gpuproof("notebook", "start", "nb").stdout == "nb: InService\n"
    refused = cli.gpuproof("notebook", "delete", "nb", stdin=subprocess.DEVNULL)
    assert (refused.returncode, "Add --yes" in refused.stderr) == (2, True)
    assert exists(emulator)[0] == {"nb": "InService"}
    assert cli.gpuproof("notebook", "delete", "nb", "--yes").stdout == "nb: deleted\n"
    assert exists(emulator) == ({}, 0)
    assert cli.gpuproof("notebook", "stop", "nb").returncode == 2


def test_the_address_is_printed_only_where_it_was_asked_for(cli: CliSandbox) -> None:
    cli.gpuproof(*CREATE)
    hidden = cli.gpuproof("notebook", "open", "nb")
    assert hidden.returncode == 2
    assert "authToken" not in hidden.stdout + hidden.stderr
    assert "--no-browser" in hidden.stderr
    shown = cli.gpuproof("notebook", "open", "--no-browser", "nb")
    assert shown.stdout.startswith("http://127.0.0.1:")
    assert "authToken=" in shown.stdout
    document = json.loads(cli.gpuproof("notebook", "open", "--no-browser", "nb", "--json").stdout)
    assert "authToken=" in document["url"]


def test_the_browser_gets_the_address(cli: CliSandbox) -> None:
    cli.gpuproof(*CREATE)
    browser = cli.write("browser.sh", '#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    cli.environment["BROWSER"] = f"{browser} %s"
    done = cli.gpuproof("notebook", "open", "nb")
    assert done.returncode == 0, done.stderr
    assert "authToken" not in done.stdout + done.stderr
    assert "authToken=" in until(
        lambda: (path := cli.project / "opened").exists() and path.read_text(), "the browser"
    )


def test_a_dry_run_creates_nothing(cli: CliSandbox, emulator: RunningEmulator) -> None:
    document = json.loads(cli.gpuproof(*CREATE, "--dry-run", "--json").stdout)
    assert document["calls"][-1]["operation"] == "create_notebook_instance"
    assert document["calls"][-1]["request"]["RootAccess"] == "Disabled"
    assert exists(emulator) == ({}, 0)
    text = cli.gpuproof(*CREATE, "--dry-run").stderr
    assert "nothing was created" in text


def test_a_job_file_describes_it_and_flags_override_it(cli: CliSandbox) -> None:
    cli.write(
        "gpuproof.yaml",
        "jobs:\n  lab:\n    kind: notebook\n    name: lab\n    instance_type: ml.g5.xlarge\n    volume_size: 80\n",
    )
    done = cli.gpuproof("notebook", "create", "gpuproof.yaml", "lab", "--root-access", "--dry-run", "--json")
    request = json.loads(done.stdout)["calls"][-1]["request"]
    assert (request["NotebookInstanceName"], request["VolumeSizeInGB"], request["RootAccess"]) == (
        "lab",
        80,
        "Enabled",
    )


def test_wrong_usage_says_what_to_type(cli: CliSandbox) -> None:
    missing = cli.gpuproof("notebook", "create", "nb")
    assert (missing.returncode, "--instance-type ml.g5.xlarge" in missing.stderr) == (2, True)
    unknown = cli.gpuproof("notebook", "create", "nb", "--instance-type", "ml.p5e.48xlarge")
    assert unknown.returncode == 2
    assert "not an instance type for notebook jobs" in unknown.stderr
    short = cli.gpuproof(*CREATE, "--idle-timeout", "10s")
    assert (short.returncode, "--idle-timeout: 10s is less" in short.stderr) == (2, True)


def test_somebody_elses_instance_is_not_deleted_without_asking(
    cli: CliSandbox, emulator: RunningEmulator
) -> None:
    api = emulator.client("sagemaker")
    api.create_notebook_instance(
        NotebookInstanceName="theirs",
        InstanceType="ml.t3.medium",
        RoleArn="arn:aws:iam::123456789012:role/emulator",
    )
    until(lambda: exists(emulator)[0] == {"theirs": "InService"}, "the start")
    refused = cli.gpuproof("notebook", "delete", "theirs", "--yes", stdin=subprocess.DEVNULL)
    assert refused.returncode == 2
    assert "GPUproof did not create it" in refused.stderr
    assert exists(emulator)[0] == {"theirs": "InService"}
    assert cli.gpuproof("notebook", "delete", "theirs", "--force").returncode == 0
    assert exists(emulator)[0] == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupt_while_it_is_pending_leaves_nothing(
    cli: CliSandbox, emulator: RunningEmulator, number: signal.Signals
) -> None:
    emulator.faults("slow-start,seconds=4")
    process = cli.start(*CREATE)
    until(lambda: exists(emulator)[0] == {"nb": "Pending"}, "the creation")
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    emulator.faults()
    assert process.returncode == 130, errors
    assert "deletes it only when it is no longer Pending" in errors
    assert exists(emulator) == ({}, 0)


def test_a_second_signal_leaves_it_and_says_so(cli: CliSandbox, emulator: RunningEmulator) -> None:
    emulator.faults("slow-start,seconds=100000")
    process = cli.start(*CREATE)
    assert process.stderr is not None
    until(lambda: exists(emulator)[0] == {"nb": "Pending"}, "the creation")
    process.send_signal(signal.SIGTERM)
    seen: list[str] = []
    while "no longer Pending" not in "".join(seen):
        line = process.stderr.readline()
        assert line, seen
        seen.append(line)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    emulator.faults()
    assert process.returncode == 130
    assert "gpuproof notebook delete nb" in errors
    assert exists(emulator)[0] == {"nb": "Pending"}


def test_a_notebook_stuck_in_pending_ends_with_what_stays(cli: CliSandbox, emulator: RunningEmulator) -> None:
    emulator.faults("slow-start,seconds=100000")
    done = cli.gpuproof(*CREATE, "--timeout", "2s")
    emulator.faults()
    assert done.returncode == 3
    assert "is still Pending after 2" in done.stderr
    assert "gpuproof notebook delete nb" in done.stderr
    assert exists(emulator) == ({"nb": "Pending"}, 1)


def test_an_interrupt_of_a_start_says_that_it_continues(cli: CliSandbox, emulator: RunningEmulator) -> None:
    cli.gpuproof(*CREATE)
    cli.gpuproof("notebook", "stop", "nb")
    emulator.faults("slow-start,seconds=3")
    process = cli.start("notebook", "start", "nb")
    until(lambda: exists(emulator)[0] == {"nb": "Pending"}, "the start")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    emulator.faults()
    assert process.returncode == 130
    assert "gpuproof notebook stop nb" in errors
    until(lambda: exists(emulator)[0] == {"nb": "InService"}, "the start")


def test_confirmation_on_a_terminal(cli: CliSandbox, emulator: RunningEmulator) -> None:
    import pty  # POSIX only

    cli.gpuproof(*CREATE)
    for answer, code, left in ((b"n\n", 1, {"nb": "InService"}), (b"y\n", 0, {})):
        parent, child = pty.openpty()
        words: list[Any] = [sys.executable, "-m", "gpuproof", "notebook", "delete", "nb"]
        environment = {**os.environ, **cli.environment, "HOME": str(cli.home)}
        process = subprocess.Popen(
            words,
            stdin=child,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cli.project,
        )
        os.write(parent, answer)
        _, errors = process.communicate(timeout=300)
        os.close(parent)
        os.close(child)
        assert process.returncode == code, errors
        assert b"with all files on its volume? [y/N]" in errors
        assert exists(emulator)[0] == left
