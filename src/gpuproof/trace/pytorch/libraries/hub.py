"""The Hugging Face Hub: a machine without network finds out at once."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from gpuproof.trace.imports import ImportActions

_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


def stop_retries(imports: ImportActions) -> None:
    """Let the Hub's client use its cache alone if the Hub's name is unknown; it would try for minutes."""
    imports.before("huggingface_hub", _go_offline)


def _go_offline() -> None:
    if "HF_HUB_OFFLINE" in os.environ or any(os.environ.get(name) for name in _PROXIES):
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"
