"""Mistakes that only several files together show, and programs that look like them and are right."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

NET = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(8, 2), nn.Dropout(0.5))

        def forward(self, x):
            return self.body(x)
    """
MAIN = """
    import torch
    from net import Net
    from torch.utils.data import DataLoader
    from trainer import Trainer

    def main():
        model = Net()
        {place}
        Trainer(model, DataLoader([])).fit()

    main()
    """
TRAINER = """
    import torch

    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader
            self.device = torch.device("cuda")
            self.optimizer = torch.optim.Adam(model.parameters())
            {place}

        def fit(self):
            for batch in self.loader:
                self.optimizer.zero_grad()
                loss = self.step(batch)
                loss.backward()
                self.optimizer.step()

        def step(self, batch):
            x, y = {batch}
            return torch.nn.functional.cross_entropy(self.model(x), y)

        def to_device(self, batch):
            return [item.to(self.device) for item in batch]
    """


def found(folder: Path, files: dict[str, str], *codes: str) -> list[tuple[str, str]]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=codes)))
    assert not report.internal_errors
    return [
        (hit.code, Path(hit.finding.location.file or "").name) for hit in report.hits if hit.finding.location
    ]


@pytest.mark.parametrize(
    ("in_main", "in_trainer", "batch", "expected"),
    [
        ("pass", "pass", "self.to_device(batch)", [("PT102", "trainer.py")]),
        ("model.cuda()", "pass", "batch", [("PT102", "trainer.py")]),
        ("pass", "self.model.to(self.device)", "batch", [("PT102", "trainer.py")]),
        ("model = model.to('cuda')", "pass", "self.to_device(batch)", []),
        ("pass", "self.model = self.model.to(self.device)", "self.to_device(batch)", []),
        ("pass", "pass", "batch", []),
    ],
)
def test_half_of_a_pair_is_moved_in_another_file(
    in_main: str, in_trainer: str, batch: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    files = {
        "net.py": NET,
        "main.py": MAIN.format(place=in_main),
        "trainer.py": TRAINER.format(place=in_trainer, batch=batch),
    }
    assert found(tmp_path, files, "PT102") == expected


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ("hits += (model(x).argmax(1) == y).sum().item()", ["PF104", "PF105"]),
        ("hits += loss_of(model, x, y).item()", ["PF104"]),
        (
            "with torch.no_grad():\n                        hits += (model(x).argmax(1) == y).sum().item()",
            ["PF105"],
        ),
        ("kept.append(model(x))", []),
        ("other = model(x)", []),
    ],
)
def test_scores_become_numbers(scoring: str, expected: list[str], tmp_path: Path) -> None:
    files = {
        "net.py": NET,
        "train.py": f"""
            import torch
            from net import Net

            def loss_of(model, x, y):
                return torch.nn.functional.cross_entropy(model(x), y)

            def main(train, valid, kept):
                model = Net()
                optimizer = torch.optim.Adam(model.parameters())
                hits = 0
                for x, y in train:
                    optimizer.zero_grad()
                    loss_of(model, x, y).backward()
                    optimizer.step()
                for x, y in valid:
                    {scoring}
                return hits
            """,
    }
    assert [code for code, _ in found(tmp_path, files, "PF104", "PF105")] == expected
