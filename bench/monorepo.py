"""How fast `gpuproof check` is on a generated monorepo: 5,000 scripts, 300 notebooks and 200 launchers that link to them.

    python bench/monorepo.py [--projects 200] [--runs 1] [--keep FOLDER]

Aims: at least 200 files a second in one process, the same findings from any working directory, and no internal error. The tree is several times larger than what `gpuproof check` keeps parsed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

RATE_AIM = 200.0
SCRIPTS_PER_PROJECT = 25
NOTEBOOKS_PER_PROJECT = 1.5
MODULES = ("data", "losses", "metrics", "schedule", "augment")
"""Modules of each project that its scripts import."""


class Measured(NamedTuple):
    """One run of `gpuproof check`."""

    seconds: float
    memory: int
    files: int
    findings: Counter[str]
    internal_errors: int


def main() -> int:
    """Prints the figures; returns 1 if an aim is missed."""
    options = _arguments()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary) / "monorepo"
        count, size = build_monorepo(folder, options.projects)
        print(f"generated: {count} files, {size / 1e6:.1f} MB, {options.projects} projects")
        one = _measure(folder.parent, folder.name, options.runs)
        rate = one.files / one.seconds
        print(
            f"the repository: {rate:.0f} files/s, {one.seconds:.1f} s, {one.memory / 1e6:.0f} MB (aim: {RATE_AIM:.0f} files/s)"
        )
        inside = _measure(folder, ".", 1)
        same = one.findings == inside.findings
        errors = one.internal_errors + inside.internal_errors
        print(
            f"{sum(one.findings.values())} findings of {len(one.findings)} rules; the same each time: {same}"
        )
        print(f"internal errors: {errors}")
    return 0 if rate >= RATE_AIM and same and not errors else 1


def build_monorepo(folder: Path, projects: int) -> tuple[int, int]:
    """Write a repository of projects; returns the number of files and bytes."""
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    count = size = 0
    for number in range(projects):
        for name, text in _project(number).items():
            path = folder / f"team_{number % 12:02}" / f"project_{number:03}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            count, size = count + 1, size + len(text)
    return count, size


def _project(number: int) -> dict[str, str]:
    """The files of one project by path: scripts in src/, a launcher, notebooks and requirements."""
    files = {f"src/{name}.py": _module(name, number) for name in MODULES}
    for index in range(SCRIPTS_PER_PROJECT - len(MODULES)):
        make = _keras_script if index % 4 == 3 else _torch_script
        files[f"src/train_{index:02}.py"] = make(number, index)
    files["launch.py"] = _launcher(number)
    notebooks = int((number + 1) * NOTEBOOKS_PER_PROJECT) - int(number * NOTEBOOKS_PER_PROJECT)
    for index in range(notebooks):
        files[f"notebooks/explore_{index}.ipynb"] = _notebook(number, index)
    if number % 5 == 0:
        files["src/requirements.txt"] = "torch==2.4.0\ntransformers>=4.40\npandas\n"
    return files


def _module(name: str, number: int) -> str:
    functions = "\n".join(
        f'''
def {name}_{index}(values, weight={index}.5, limit=None):
    """Combine values for experiment {number}."""
    result = []
    for position, value in enumerate(values):
        if limit is not None and position >= limit:
            break
        result.append(weight * value + {number})
    return np.asarray(result, dtype="float32")
'''
        for index in range(10)
    )
    other = MODULES[(MODULES.index(name) + 1) % len(MODULES)]
    return f'"""Helpers of project {number}."""\nimport numpy as np\n\nimport {other}\n{functions}'


def _torch_script(number: int, index: int) -> str:
    where = '"model.pth"' if (number + index) % 50 == 0 else 'os.path.join(args.model_dir, "model.pth")'
    workers = "" if (number + index) % 7 == 0 else ", num_workers=4, pin_memory=True"
    return f'''\
"""Experiment {number}.{index}."""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from data import data_{index % 10}
from losses import losses_{index % 10}
import metrics


class Block(nn.Module):
    def __init__(self, width={16 + index}):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


def loaders(args):
    x = torch.from_numpy(data_{index % 10}(range(1024))).reshape(-1, 1).repeat(1, {16 + index})
    return DataLoader(TensorDataset(x, x), batch_size=args.batch_size, shuffle=True{workers})


def train(model, loader, optimizer, device, epoch, args):
    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if step % args.log_interval == 0:
            print(f"epoch {{epoch}} step {{step}} loss {{loss.item():.4f}}")


def evaluate(model, loader, device):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += F.mse_loss(model(x.to(device)), y.to(device)).item()
    return metrics.metrics_0([total / max(len(loader), 1)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default={index % 7 + 1})
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.0{index % 9 + 1})
    parser.add_argument("--log-interval", type=int, default=50)
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "model"))
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(Block(), Block()).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = loaders(args)
    for epoch in range(args.epochs):
        train(model, loader, optimizer, device, epoch, args)
        print(epoch, evaluate(model, loader, device))
    torch.save(model.state_dict(), {where})


if __name__ == "__main__":
    main()
'''


def _keras_script(number: int, index: int) -> str:
    return f"""\
import os

import numpy as np
import tensorflow as tf

import augment


def dataset(count, batch):
    x = augment.augment_{index % 10}(range(count)).reshape(-1, 1)
    data = tf.data.Dataset.from_tensor_slices((x, x)).shuffle(count)
    return data.map(lambda a, b: (a * 2.0, b), num_parallel_calls=tf.data.AUTOTUNE).batch(batch).prefetch(tf.data.AUTOTUNE)


model = tf.keras.Sequential([
    tf.keras.Input((1,)),
    tf.keras.layers.Dense({8 * (index + 1)}, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")
model.fit(dataset(10_000, 64), epochs={number % 5 + 1})
model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))
"""


def _launcher(number: int) -> str:
    jobs = "\n".join(
        f"""
estimator_{index} = {"TensorFlow" if index % 4 == 3 else "PyTorch"}(
    entry_point="train_{index:02}.py",
    source_dir="src",
    role=role,
    instance_count=1,
    instance_type="ml.g5.{"12xlarge" if (number + index) % 10 == 0 else "xlarge"}",
    framework_version="{"2.14" if index % 4 == 3 else "2.3"}",
    py_version="py3{"10" if index % 4 == 3 else "11"}",
    hyperparameters={{"epochs": 3}},
)
estimator_{index}.fit({{"train": f"s3://{{bucket}}/train"}})
"""
        for index in range(0, SCRIPTS_PER_PROJECT - len(MODULES), 4)
    )
    return f"""\
import sagemaker
from sagemaker.pytorch import PyTorch
from sagemaker.tensorflow import TensorFlow

role = sagemaker.get_execution_role()
bucket = sagemaker.Session().default_bucket()
{jobs}"""


def _notebook(number: int, index: int) -> str:
    sources = [
        "%pip install -q 'sagemaker<3'",
        f"import pandas as pd\ntable = pd.read_csv('s3://bucket/{number}.csv')\ntable.head()",
        "%%writefile scratch.py\nimport torch\nprint(torch.cuda.is_available())",
        _launcher(number).replace('source_dir="src"', 'source_dir="../src"'),
        f"table.plot(title='run {index}')",
    ]
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _measure(folder: Path, path: str, runs: int) -> Measured:
    """Check a path from a folder; the median time of several runs."""
    words = ["check", path, "--format", "json", "--exit-zero"]
    seconds: list[float] = []
    memory = 0
    document: dict[str, object] = {}
    for _ in range(runs):
        with tempfile.TemporaryFile() as output:
            started = time.perf_counter()
            child = subprocess.Popen(
                [Path(sys.executable).with_name("gpuproof"), *words], cwd=folder, stdout=output
            )
            _, _, usage = os.wait4(child.pid, 0)
            seconds.append(time.perf_counter() - started)
            # Linux reports kilobytes, macOS bytes.
            memory = max(memory, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
            output.seek(0)
            document = json.load(output)
    findings, errors = document["findings"], document.get("internal_errors", [])
    assert isinstance(findings, list)
    assert isinstance(errors, list)
    files = document["files"]
    assert isinstance(files, int)
    codes = Counter(str(finding["code"]) for finding in findings)
    return Measured(statistics.median(seconds), memory, files, codes, len(errors))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast `gpuproof check` is on a monorepo.")
    parser.add_argument("--projects", type=int, default=200, help="each has 25 scripts and one launcher")
    parser.add_argument("--runs", type=int, default=1, help="of each command; the median counts")
    parser.add_argument("--keep", type=Path, help="write the tree to this new folder and keep it")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists():
        parser.error(f"{options.keep} exists; remove it first")
    if shutil.which(str(Path(sys.executable).with_name("gpuproof"))) is None:
        parser.error("run it with the Python of .venv")
    return options


if __name__ == "__main__":
    sys.exit(main())
