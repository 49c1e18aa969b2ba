"""An error as a page."""

from __future__ import annotations

from gpuproof.errors import GPUproofError
from gpuproof.report import Block, Callout, Page, Section, Status


def error_page(title: str, error: GPUproofError) -> Page:
    """The page of what could not be shown: why, and what to do.

    Args:
        title: of the page that was asked for.
    """
    blocks: list[Block] = [Callout("bad", "error", error.message)]
    if error.remedy:
        blocks.append(Callout("neutral", "what to do", error.remedy))
    return Page(title, status=Status("not shown", "bad"), sections=[Section("Error", blocks)])
