"""Code of a function that the program never uses does not count as what the program does."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

TRAINER = """
import torch

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def fit(self, loader):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()

{function}
"""
CLEAR = "def {name}(optimizer):\n    optimizer.zero_grad()\n"
MAIN = 'if __name__ == "__main__":\n    Trainer(torch.nn.Linear(4, 1)).fit([])\n'


@pytest.mark.parametrize(
    ("function", "other", "found"),
    [
        (CLEAR.format(name="_clear"), "", ["PF106"]),
        (CLEAR.format(name="clear") + MAIN, "", ["PF106"]),
        (CLEAR.format(name="clear"), "", []),
        (CLEAR.format(name="_clear"), "import trainer\nhook = trainer._clear\n", []),
        (CLEAR.format(name="clear") + MAIN, "from trainer import clear\nclear(None)\n", []),
        (CLEAR.format(name="_clear") + 'HOOKS = ["_clear"]\n', "", []),
        ("import fire\n" + CLEAR.format(name="clear") + MAIN + "    fire.Fire()\n", "", []),
    ],
)
def test_a_function_that_nothing_uses_clears_no_gradients(
    function: str, other: str, found: list[str], tmp_path: Path
) -> None:
    write_files(tmp_path, {"trainer.py": TRAINER.format(function=function), "main.py": other})
    report = check_paths([str(tmp_path)], CheckOptions(Selection(select=("PF106",))))
    assert [hit.code for hit in report.hits] == found
