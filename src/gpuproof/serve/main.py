"""Which of the server's processes this is; each imports what it needs and no more."""

from __future__ import annotations

import os
import sys

from gpuproof.util.process_tree import die_with_parent


def main(words: list[str] | None = None) -> int:
    """`serve [--model-dir FOLDER] …` or, for the server's own use, `predictor JSON` and `reader JSON`."""
    words = sys.argv[1:] if words is None else words
    if words[:1] in (["predictor"], ["reader"]):
        _leave_no_trace_on_the_path()
        if not _ends_with_parent():
            return 1
    if words[:1] == ["predictor"]:
        from gpuproof.serve.workers.worker_process import main as predict

        return predict(words[1:])
    if words[:1] == ["reader"]:
        from gpuproof.serve.workers.decoder_process import main as read

        return read(words[1:])
    from gpuproof.serve.server import main as serve

    return serve(words)


def _ends_with_parent() -> bool:
    """The kernel ends it when the spawner dies; false where that has happened already."""
    parent = os.getppid()
    die_with_parent()
    return os.getppid() == parent


def _leave_no_trace_on_the_path() -> None:
    """GPUproof's own place goes last: a handler's imports find the image's packages first, and nothing by the folder."""
    own = sys.path.pop(0)
    if own:
        sys.path.append(own)
