"""Prefixes of the agent's own lines in a container's log; the client separates them from the script's output."""

from __future__ import annotations

VERDICT_MARKER = "gpuproof-verdict: "
"""Begins the last line on standard output, followed by the verdict as JSON."""

MESSAGE_MARKER = "gpuproof-agent: "
"""Begins each line with a message of the agent: why the job failed, and notes."""
