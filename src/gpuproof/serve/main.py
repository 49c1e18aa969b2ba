"""Starts the server's frontend, a worker or the decoder, depending on the command line."""

from __future__ import annotations

import os
import sys

from gpuproof.util.process_tree import die_with_parent


def main(words: list[str] | None = None) -> int:
    """Run `serve [--model-dir FOLDER] …` or, for internal use, `worker JSON` or `decoder JSON`."""
    words = sys.argv[1:] if words is None else words
    if words[:1] in (["worker"], ["decoder"]):
        _move_own_path_last()
        if not _tie_to_parent():
            return 1
    if words[:1] == ["worker"]:
        from gpuproof.serve.workers.worker_process import main as run_worker

        return run_worker(words[1:])
    if words[:1] == ["decoder"]:
        from gpuproof.serve.workers.decoder_process import main as run_decoder

        return run_decoder(words[1:])
    from gpuproof.serve.server import main as serve

    return serve(words)


def _tie_to_parent() -> bool:
    """Let the kernel end this process when its parent dies. Returns false if the parent has died already."""
    parent = os.getppid()
    die_with_parent()
    return os.getppid() == parent


def _move_own_path_last() -> None:
    """Move GPUproof's own entry to the end of `sys.path`, so that a handler's imports find the image's packages first."""
    own = sys.path.pop(0)
    if own:
        sys.path.append(own)
