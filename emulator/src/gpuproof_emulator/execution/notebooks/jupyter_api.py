"""Jupyter's address on a notebook instance, https://localhost:8443, where programs on the instance need no token.

Source: https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples, `autostop.py`. On an
emulated instance it forwards requests to Jupyter, with its token; it has no web sockets. The port is in the instance's own
network.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 8443
_ANSWER_S = 60.0
_HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")


def serve_jupyter_api(port: int, token: str, certificate: str) -> None:
    """Serve in the background.

    Args:
        port: where Jupyter itself listens on loopback.
        token: Jupyter's.
        certificate: a PEM file with a key and a certificate of `localhost`.
    """
    server = ThreadingHTTPServer(("127.0.0.1", PORT), _handler(port, token))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, name="jupyter api", daemon=True).start()


def write_certificate(path: Path) -> None:
    """Write a key and a self-signed certificate of `localhost` into a PEM file."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509  # moto requires it
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    moment = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(days=1))
        .not_valid_after(moment + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(encoded + certificate.public_bytes(serialization.Encoding.PEM))


def _handler(port: int, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._forward()

        def do_POST(self) -> None:
            self._forward()

        def do_DELETE(self) -> None:
            self._forward()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Log nothing."""

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
            try:
                connection.request(
                    self.command, self.path, body or None, _headers(dict(self.headers.items()), token)
                )
                answer = connection.getresponse()
                content = answer.read()
            except OSError as error:
                self.send_error(502, str(error))
                return
            finally:
                connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _headers(given: Mapping[str, str], token: str) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name.lower() not in (*_HOP_BY_HOP, "host")}
    return {**kept, "Authorization": f"token {token}"}
