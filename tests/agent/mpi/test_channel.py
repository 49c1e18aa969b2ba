from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from gpuproof.agent.mpi.channel import Channel, NotAuthenticated

KEY, OTHER = b"k" * 32, b"o" * 32
PATIENCE = 300.0


class Server:
    """Accepts one connection and runs a function with it in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.error: BaseException | None = None
        self._serve = serve
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        connection, _ = self.listener.accept()
        try:
            self._serve(connection)
        except BaseException as error:
            self.error = error
        finally:
            connection.close()

    def end(self) -> None:
        self.thread.join(PATIENCE)
        self.listener.close()


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[socket.socket], None]], Server]]:
    servers: list[Server] = []

    def starting(serve: Callable[[socket.socket], None]) -> Server:
        servers.append(Server(serve))
        return servers[-1]

    yield starting
    for server in servers:
        server.end()


def echo(connection: socket.socket) -> None:
    channel = Channel.accept(connection, KEY)
    while (message := channel.receive(PATIENCE)) is not None:
        channel.send({"heard": message})


def test_hosts_with_the_same_key_exchange_messages(start):
    server = start(echo)
    channel = Channel.connect(server.address, KEY)
    for number in range(3):
        channel.send({"number": number, "text": "zwei\nZeilen"})
        assert channel.receive(PATIENCE) == {"heard": {"number": number, "text": "zwei\nZeilen"}}
    channel.close()


def test_a_client_with_another_key_is_not_answered(start):
    server = start(echo)
    channel = Channel.connect(server.address, OTHER)
    channel.send({"number": 1})
    assert channel.receive(PATIENCE) is None
    channel.close()
    server.end()
    assert isinstance(server.error, NotAuthenticated)


def test_a_server_with_another_key_is_not_believed(start):
    def lie(connection: socket.socket) -> None:
        channel = Channel.accept(connection, OTHER)
        channel.send({"ready": True})

    channel = Channel.connect(start(lie).address, KEY)
    with pytest.raises(NotAuthenticated):
        channel.receive(PATIENCE)
    channel.close()


def test_messages_of_another_connection_cannot_be_repeated(start):
    recorded: list[bytes] = []

    def record(connection: socket.socket) -> None:
        connection.sendall(b"0" * 32 + b"\n")
        stream = connection.makefile("rb")
        recorded.extend((stream.readline(), stream.readline()))

    first = Channel.connect(start(record).address, KEY)
    first.send({"role": "first"})
    server = start(echo)
    with socket.create_connection(server.address, PATIENCE) as connection:
        while not recorded[1:]:
            first.receive(PATIENCE)  # the end of the connection
        connection.sendall(b"".join(recorded))
        server.end()
    assert isinstance(server.error, NotAuthenticated)
    first.close()


def test_a_changed_message_is_refused(start):
    def change(connection: socket.socket) -> None:
        channel = Channel.accept(connection, KEY)
        genuine = channel._code(b"server", 0, b'{"ended": 0}')
        connection.sendall(genuine + b' {"ended": 1}\n')

    channel = Channel.connect(start(change).address, KEY)
    with pytest.raises(NotAuthenticated):
        channel.receive(PATIENCE)
    channel.close()


def test_a_job_without_a_key_authenticates_nobody(start):
    server = start(echo)
    with pytest.raises(NotAuthenticated):
        Channel.connect(server.address, b"")
    socket.create_connection(server.address).close()


def test_another_protocol_is_recognised(start):
    server = start(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"))
    with pytest.raises(NotAuthenticated):
        Channel.connect(server.address, KEY)
