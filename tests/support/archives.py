"""Archives in memory, with members that no packer would write."""

from __future__ import annotations

import io
import tarfile


def archive(**members: bytes) -> bytes:
    """A `.tar.gz` with these members, whatever their names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
