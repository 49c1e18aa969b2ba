"""The instance metadata service of a simulated instance: IMDSv2, which answers nothing without a token.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import http.server
import json
import secrets
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path

ADDRESS = "169.254.169.254"
"""Its address on every instance."""

_TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - a name
_ROOT = "/latest/"
_POLL_S = 0.05


def serve_metadata(known: Path) -> None:
    """Serve in the background.

    Args:
        known: a JSON object with texts by path below `latest/`; it is read for each request.
    """

    class Handler(_Handler):
        document = known
        token = secrets.token_hex(8)

    server = _Server((ADDRESS, 80), Handler)
    threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True).start()


def find_text(known: Mapping[str, str], path: str) -> str | None:
    """The text at a path, or the list of what is below it; None if there is nothing."""
    if path in known:
        return known[path]
    folder = f"{path.rstrip('/')}/" if path.rstrip("/") else ""
    names = [key.removeprefix(folder).split("/") for key in known if key.startswith(folder) and key != folder]
    listed = {first if not rest else f"{first}/" for first, *rest in names}
    return "\n".join(sorted(listed)) or None


class _Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        # http.server's own asks DNS for a name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, 80


class _Handler(http.server.BaseHTTPRequestHandler):
    document: Path
    token: str

    def do_PUT(self) -> None:
        valid = self.path == f"{_ROOT}api/token" and self.headers.get(f"{_TOKEN_HEADER}-ttl-seconds")
        self._answer(200 if valid else 400, self.token if valid else "")

    def do_GET(self) -> None:
        if self.headers.get(_TOKEN_HEADER) != self.token:
            self._answer(401, "")
            return
        known = json.loads(self.document.read_text(encoding="utf-8"))
        text = find_text(known, self.path.removeprefix(_ROOT))
        self._answer(404 if text is None else 200, text or "")

    def _answer(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""
