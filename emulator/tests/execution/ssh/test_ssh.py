"""The programs `sshd` and `ssh` of a job's hosts, on the loopback device."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("paramiko", reason="paramiko is not installed")

import paramiko

from gpuproof_emulator.execution import ssh
from gpuproof_emulator.execution.jobs.sdk_drivers import write_key
from gpuproof_emulator.execution.ssh import server
from gpuproof_emulator.execution.ssh.client import Request, parse
from gpuproof_emulator.execution.ssh.server import read_environment
from support.cli_sandbox import until
from support.ports import free_port

_TOOLS = Path(ssh.__file__).parent


@dataclass
class Host:
    """One host with a server."""

    home: Path
    port: int
    environment: Path

    def ssh(self, *words: str, data: bytes = b"", home: Path | None = None) -> tuple[int, bytes, bytes]:
        """Run the client; returns exit code, output and errors."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", _TOOLS / "client.py", str(self.port), *words],
            env={"HOME": str(home or self.home)},
            input=data,
            capture_output=True,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    home = tmp_path_factory.mktemp("home")
    write_key(home)
    environment = home / "environment"
    environment.write_text("GREETING=two words = fine\n")
    found = Host(home, free_port(), environment)
    words = [_TOOLS / "server.py", "127.0.0.1", str(found.port), environment, "-D"]
    process = subprocess.Popen([sys.executable, "-W", "ignore", *words], env={"HOME": str(home)})
    try:
        until(lambda: found.ssh("127.0.0.1", "true")[0] == 0, "a connection")
        yield found
    finally:
        process.kill()
        process.wait()


def test_a_command_has_input_outputs_and_exit_code(host: Host) -> None:
    code, output, errors = host.ssh("127.0.0.1", "cat; echo problem >&2; exit 7", data=b"hello")
    assert (code, output, errors.strip()) == (7, b"hello", b"problem")


def test_much_data_in_both_directions(host: Host) -> None:
    data = b"0123456789abcdef" * 200_000
    assert host.ssh("127.0.0.1", "cat", data=data) == (0, data, b"")


def test_words_of_a_command_are_joined_and_options_have_no_effect(host: Host) -> None:
    code, output, _ = host.ssh(
        "-x", "-o", "BatchMode=yes", "me@127.0.0.1", "-q", "echo", "a", "b;", "echo", "c"
    )
    assert (code, output) == (0, b"a b\nc\n")


def test_a_session_has_the_variables_of_the_file_and_starts_at_home(host: Host) -> None:
    _, output, _ = host.ssh("127.0.0.1", 'echo "$GREETING"; pwd; echo "$HOME"')
    assert output.decode().splitlines() == ["two words = fine", str(host.home), str(host.home)]


def test_a_command_that_is_killed_has_the_code_of_a_shell(host: Host) -> None:
    assert host.ssh("127.0.0.1", "kill -KILL $$") == (137, b"", b"")


def test_a_command_that_ends_at_once_is_accepted_first(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    class LateAnswers(paramiko.Transport):
        """A connection whose thread sends the answer when the command has ended, if it can end before."""

        def _send_user_message(self, data: paramiko.Message) -> None:
            kind = data.asbytes()[:1]
            if kind == paramiko.common.cMSG_CHANNEL_SUCCESS:
                ended.wait(0.5)
            super()._send_user_message(data)
            if kind == paramiko.common.cMSG_CHANNEL_CLOSE:
                ended.set()

    monkeypatch.setenv("HOME", str(host.home))
    monkeypatch.setattr(server.paramiko, "Transport", LateAnswers)
    key = paramiko.Ed25519Key(filename=str(host.home / ".ssh" / "id_ed25519"))
    near, far = socket.socketpair()
    threading.Thread(target=server._serve, args=(far, key, host.environment), daemon=True).start()
    with paramiko.Transport(near) as client:
        client.start_client()
        client.auth_publickey("job", key)
        channel = client.open_session()
        channel.exec_command("kill -KILL $$")
        assert channel.recv_exit_status() == 137


def test_only_the_jobs_key_is_accepted(host: Host, tmp_path: Path) -> None:
    write_key(tmp_path)
    code, output, errors = host.ssh("127.0.0.1", "echo reached", home=tmp_path)
    assert (code, output) == (255, b"")
    assert b"Host key verification failed" in errors
    with paramiko.SSHClient() as client:
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        key = str(tmp_path / ".ssh" / "id_ed25519")
        with pytest.raises(paramiko.AuthenticationException):
            client.connect(
                "127.0.0.1", host.port, "root", key_filename=key, allow_agent=False, look_for_keys=False
            )


def test_there_are_no_shells_and_terminals(host: Host) -> None:
    with paramiko.SSHClient() as client:
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        key = str(host.home / ".ssh" / "id_ed25519")
        client.connect(
            "127.0.0.1", host.port, "root", key_filename=key, allow_agent=False, look_for_keys=False
        )
        with pytest.raises(paramiko.SSHException):
            client.invoke_shell()
    assert host.ssh("127.0.0.1")[0] == 255


def test_a_host_without_a_server(host: Host) -> None:
    other = Host(host.home, free_port(), host.environment)
    code, _, errors = other.ssh("127.0.0.1", "true")
    assert (code, b"Connection refused" in errors) == (255, True)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("algo-2 touch /tmp/x", Request("algo-2", "touch /tmp/x", True)),
        ("-n -x algo-2 orted -mca ess env", Request("algo-2", "orted -mca ess env", False)),
        ("-xn -p22 -l me algo-2 -- -odd", Request("algo-2", "-odd", False)),
        ("algo-2", Request("algo-2", "", True)),
        ("-x", None),
        ("-o", None),
        ("", None),
    ],
)
def test_arguments(line: str, request_: Request | None) -> None:
    assert parse(line.split()) == request_


def test_lines_that_assign_nothing_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text("# A=1\nB=2\nexport C=x=y\nno assignment\nBASH_FUNC_f%%=() {  :\n}\nB=3\nD=\n\n")
    assert read_environment(file) == {"B": "3", "C": "x=y", "D": ""}
