"""A finding stays where the catalogue has no price, and says so."""

import json
from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.project import Target
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

TRAIN = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader([]):
    loss = (model(x) - y).sum()
    loss.backward()
    optimizer.step()
"""
LAUNCHERS = {
    "PT101": 'PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()',
    "DS102": 'PyTorch(entry_point="train.py", instance_count=2, instance_type="ml.g5.xlarge").fit()',
    "CO101": 'p = PyTorchModel(model_data=m, entry_point="i.py").deploy(initial_instance_count=1, '
    'instance_type="ml.g5.xlarge")\np.predict(x)',
}


@pytest.mark.parametrize("code", LAUNCHERS)
def test_a_finding_without_a_price_stays_and_says_so(code: str, tmp_path: Path) -> None:
    head = "from sagemaker.pytorch import PyTorch, PyTorchModel\n"
    write_files(tmp_path, {"launch.py": head + LAUNCHERS[code], "train.py": TRAIN})
    options = CheckOptions(Selection(select=(code,)), Target(region="xx-nowhere-9"))
    [hit] = check_paths([str(tmp_path)], options).hits
    assert "no price known in xx-nowhere-9" in hit.finding.message


def test_an_endpoint_on_an_unknown_type_is_still_not_deleted(tmp_path: Path) -> None:
    cell = (
        "from sagemaker.pytorch import PyTorchModel\nfrom settings import TYPE\n"
        "p = PyTorchModel(model_data=m).deploy(initial_instance_count=1, instance_type=TYPE)\np.predict(x)\n"
    )
    notebook = {
        "cells": [{"cell_type": "code", "source": cell, "metadata": {}}],
        "metadata": {},
        "nbformat": 4,
    }
    write_files(tmp_path, {"launch.ipynb": json.dumps(notebook), "helpers.py": cell})
    [hit] = check_paths([str(tmp_path)], CheckOptions(Selection(select=("CO101",)))).hits
    assert hit.finding.message == "The endpoint is never deleted in this file."
