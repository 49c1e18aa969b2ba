"""What the agent's own lines begin with in a container's log; the ground half takes them out of the script's."""

from __future__ import annotations

VERDICT_MARK = "gpuproof-verdict: "
"""Begins the last line on standard output; the verdict follows as JSON."""

WORDS_MARK = "gpuproof-agent: "
"""Begins each line that the agent says to people: why the job failed, and what is worth a note."""
