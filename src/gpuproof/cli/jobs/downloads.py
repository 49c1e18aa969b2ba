"""Inputs that come from S3, as they are seen from the command line."""

from __future__ import annotations

from gpuproof.backends.local.s3_inputs.download import Brought, Watch
from gpuproof.backends.local.s3_inputs.mapping import S3Prefix
from gpuproof.terminal.console import Console
from gpuproof.util.humanize import format_bytes, pluralize


class ShownDownloads(Watch):
    """A progress line while an input comes in, and a line of its own when it is here.

    Args:
        console: where to show it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def progress(self, source: S3Prefix, done: int, total: int) -> None:
        """Redraw the progress line."""
        self._console.progress(f"Downloading {source} · {format_bytes(done)} of {format_bytes(total)}")

    def brought(self, source: S3Prefix, result: Brought) -> None:
        """Say what came."""
        self._console.end_progress()
        files = f"{pluralize(result.files, 'file')}, {format_bytes(result.total_bytes)}"
        news = (
            f"{format_bytes(result.downloaded_bytes)} downloaded"
            if result.downloaded_bytes
            else "all here already"
        )
        self._console.label("download", f"{source}: {files}, {news}")
