from pathlib import Path

import torch


def learned_tokens(folder):
    """Textual inversions: one file a token."""
    for path in sorted(Path(folder).glob("*.pt")):
        yield path.stem, torch.load(path)
