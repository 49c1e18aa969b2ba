"""`gpuproof shell`: the real AWS CLI opens a session, up to the plugin, which is a stub."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.aws_cli import aws_cli
from support.faulty_aws import FaultyAws, json_answer, json_error

pytestmark = pytest.mark.slow

_PLUGIN = """#!/bin/sh
if [ "$1" = --version ]; then echo 1.2.707.0; exit; fi
printf '%s\\n' "$@" "$AWS_SSM_START_SESSION_RESPONSE" > "$PLUGIN_WORDS"
echo opened
"""
SESSION = {"SessionId": "me-0123", "TokenValue": "secret", "StreamUrl": "wss://sessions.invalid/"}


class Shell:
    """`gpuproof shell` in a process of its own.

    Args:
        folder: becomes `PATH`.
        ssm: is Systems Manager.
    """

    def __init__(self, folder: Path, ssm: FaultyAws) -> None:
        self.folder = folder
        self.ssm = ssm

    def install(self, name: str, script: str) -> None:
        """Install a program."""
        program = self.folder / name
        program.write_text(script)
        program.chmod(0o755)

    def install_all(self) -> None:
        """Install the real AWS CLI, and the stub of its plugin."""
        if not aws_cli():
            pytest.skip("the AWS CLI is not installed, and cannot be")
        self.install("aws", f'#!/bin/sh\nexec {aws_cli()} "$@"\n')
        self.install("session-manager-plugin", _PLUGIN)

    def connect(self, status: str = "connected") -> None:
        """Systems Manager's agent on the instance has this status."""
        self.ssm.fault(
            "GetConnectionStatus", json_answer({"Target": "i", "Status": status, "LastConnected": None})
        )

    def open(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        environment = {
            **os.environ,
            "PATH": str(self.folder),
            "AWS_ENDPOINT_URL_SSM": self.ssm.url,
            "PLUGIN_WORDS": str(self.folder / "words"),
        }
        command = [sys.executable, "-m", "gpuproof", "shell", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    @property
    def words(self) -> list[str]:
        """The arguments of the plugin, and at the end what it got in its environment."""
        return (self.folder / "words").read_text().splitlines()


@pytest.fixture
def shell(ec2: Any, tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "bin"
    folder.mkdir()
    with FaultyAws(ec2.emulator.url) as ssm:
        yield Shell(folder, ssm)


def test_the_aws_cli_starts_the_session_on_the_runs_instance(ec2: Any, shell: Shell) -> None:
    launch = ec2.launch()
    ec2.boot(launch)
    shell.install_all()
    shell.connect()
    shell.ssm.fault("StartSession", json_answer(SESSION))
    done = shell.open(launch.run_id)
    assert (done.returncode, done.stdout) == (0, "opened\n"), done.stderr
    (request,) = [request for request in shell.ssm.requests if request.operation == "StartSession"]
    assert request.json() == {"Target": launch.instances[0]}
    assert launch.region in shell.words
    assert "secret" in "\n".join(shell.words)


def test_a_host_can_be_chosen(ec2: Any, shell: Shell) -> None:
    launch = ec2.launch(instances=2)
    shell.install("aws", '#!/bin/sh\necho "$@"\n')
    shell.install("session-manager-plugin", _PLUGIN)
    shell.connect()
    done = shell.open(launch.run_id, "--host", "algo-2")
    expected = f"ssm start-session --region {launch.region} --target {launch.instances[1]}\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    done = shell.open(launch.run_id, "--host", "algo-3")
    assert done.returncode == 2
    assert "has no host algo-3" in done.stderr


@pytest.mark.parametrize("command", ["shell", "tunnel"])
def test_sessions_are_opened_in_the_region_of_the_instances(
    ec2: Any, shell: Shell, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = ec2.launch(region="us-west-2")
    shell.connect()
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", shell.ssm.url)
    run = ec2.look_at(launch)
    words = run.shell_command("algo-1") if command == "shell" else run.forward_command(8888, 8889)
    assert words[:6] == ("aws", "ssm", "start-session", "--region", "us-west-2", "--target")
    (request,) = [request for request in shell.ssm.requests if request.operation == "GetConnectionStatus"]
    assert request.region == "us-west-2"


def test_a_permission_that_the_user_lacks_is_reported_by_the_aws_cli(ec2: Any, shell: Shell) -> None:
    launch = ec2.launch()
    shell.install_all()
    for operation in ("GetConnectionStatus", "StartSession"):
        shell.ssm.fault(operation, json_error("AccessDeniedException", "not for you"), None)
    done = shell.open(launch.run_id)
    assert done.returncode > 2
    assert "AccessDeniedException" in done.stderr
    assert "StartSession" in done.stderr


class TestWithoutPrograms:
    def test_without_the_aws_cli(self, ec2: Any, shell: Shell) -> None:
        done = shell.open(ec2.launch().run_id)
        assert done.returncode == 2
        assert "the AWS CLI, which is not installed" in done.stderr

    @pytest.mark.parametrize(
        ("manager", "remedy"), [("dpkg", "sudo dpkg -i session-manager-plugin.deb"), ("dnf", "dnf install")]
    )
    @pytest.mark.skipif(sys.platform != "linux", reason="other systems have other package managers")
    def test_without_its_plugin_the_remedy_installs_it(
        self, ec2: Any, shell: Shell, manager: str, remedy: str
    ) -> None:
        shell.install("aws", "#!/bin/sh\n")
        shell.install(manager, "#!/bin/sh\n")
        done = shell.open(ec2.launch().run_id)
        assert done.returncode == 2
        assert "Session Manager plugin, which is not installed" in done.stderr
        assert remedy in done.stderr


class TestNoSession:
    @pytest.fixture(autouse=True)
    def installed(self, shell: Shell) -> None:
        for name in ("aws", "session-manager-plugin"):
            shell.install(name, "#!/bin/sh\necho started\n")

    def test_of_a_run_that_has_ended(self, ec2: Any, shell: Shell) -> None:
        launch = ec2.launch()
        ec2.end(launch)
        done = shell.open(launch.run_id)
        assert (done.returncode, done.stdout) == (2, "")
        assert "has ended (Completed): its instance is terminated" in done.stderr

    def test_before_the_launch(self, ec2: Any, shell: Shell) -> None:
        done = shell.open(ec2.launch(instances=0).run_id)
        assert (done.returncode, done.stdout) == (1, "")
        assert "has no instance yet" in done.stderr

    def test_of_an_unknown_run(self, ec2: Any, shell: Shell) -> None:
        ec2.launch()
        done = shell.open("nothing")
        assert done.returncode == 2
        assert "No run on EC2" in done.stderr

    def test_on_a_port_that_does_not_exist(self, ec2: Any, shell: Shell) -> None:
        done = shell.open(ec2.launch().run_id, "--forward", "99999")
        assert done.returncode == 2
        assert "'99999' is not a port from 1 to 65535" in done.stderr

    def test_of_a_run_elsewhere(
        self, ec2: Any, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
        (tmp_path / "train.py").write_text("print('done')")
        subprocess.run([sys.executable, "-m", "gpuproof", "run", "train.py"], cwd=tmp_path, timeout=300)
        (run_id,) = (folder.name for folder in (tmp_path / "state" / "runs").iterdir())
        done = shell.open(run_id)
        assert done.returncode == 2
        assert f"{run_id} runs on this machine" in done.stderr
        assert "gpuproof logs" in done.stderr

    def test_before_the_agent_on_the_instance_has_connected(self, ec2: Any, shell: Shell) -> None:
        shell.connect("notconnected")
        done = shell.open(ec2.launch().run_id)
        assert (done.returncode, done.stdout) == (1, "")
        assert "try again" in done.stderr

    def test_if_it_does_not_connect_the_remedy_is_the_roles_permission(self, ec2: Any, shell: Shell) -> None:
        launch = ec2.launch()
        shell.connect("notconnected")
        run = ec2.look_at(launch, now=lambda: time.time() + 200)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL_SSM", shell.ssm.url)
            with pytest.raises(Exception, match="has not connected") as caught:
                run.shell_command("algo-1")
        remedy = caught.value.remedy  # pyright: ignore[reportAttributeAccessIssue]
        assert "AmazonSSMManagedInstanceCore" in remedy
        assert "gpuproof iam policy --on ec2 --role" in remedy
