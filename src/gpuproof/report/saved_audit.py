"""Pages of audits that `gpuproof audit --format json` has written to a file, such as those of a nightly job."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuproof.errors import UsageError
from gpuproof.report.audit_job_report import audit_job_page
from gpuproof.report.audit_report import audit_page
from gpuproof.report.page import Page

VERSION = 1
_PAGES: dict[str, Callable[[Mapping[str, Any], str], Page]] = {
    "audit": lambda document, footer: audit_page(document, footer=footer),
    "audit-job": audit_job_page,
}


def saved_audit_page(file: Path, footer: str = "") -> Page | None:
    """The page of the audit in a file; None if the file has something else.

    Args:
        footer: what wrote the page, and when.

    Raises:
        UsageError: it is an audit of another version, or incomplete.
    """
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or (make := _PAGES.get(str(document.get("kind")))) is None:
        return None
    version = document.get("version")
    if version != VERSION:
        raise UsageError(
            f"{file} is an audit of version {version}; this GPUproof reads {VERSION}.",
            remedy="Update GPUproof.",
        )
    try:
        return make(document, footer)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"{file} is no complete audit: {error!r}.", remedy=f"gpuproof audit --format json > {file}"
        ) from error
