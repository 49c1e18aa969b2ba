"""Which of the server's processes this is; each imports what it needs and no more."""

from __future__ import annotations

import sys


def main(words: list[str] | None = None) -> int:
    """`serve [--model-dir FOLDER] …` or, for the server's own use, `predictor JSON` and `reader JSON`."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["predictor"]:
        from tarmac.serve.predictor import main as predict

        return predict(words[1:])
    if words[:1] == ["reader"]:
        from tarmac.serve.reader import main as read

        return read(words[1:])
    from tarmac.serve.server import main as serve

    return serve(words)
