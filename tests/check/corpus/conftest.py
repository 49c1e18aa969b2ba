"""Projects are read, never run: pytest collects none of their files."""

from __future__ import annotations

collect_ignore = ["projects"]
