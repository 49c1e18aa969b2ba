"""How the server speaks HTTP: as moto's does, without a line for every request."""

from __future__ import annotations

from moto.moto_server.werkzeug_app import MotoRequestHandler


class Handler(MotoRequestHandler):
    """Answers are sent at once; only what fails is said."""

    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""
