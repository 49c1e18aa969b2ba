"""How fast `gpuproof check` is, how much memory it takes, and its peers on the same tree.

    python bench/check.py [--files 2000] [--runs 5] [--peers]

Aims: at least 200 files a second in one process; start-up under 0.15 s. There is no cache to be cold or warm: every run
reads and parses everything. With --peers, ruff, TorchFix and pylint are installed into virtual environments of their
own in a temporary folder; slow ones check part of the tree, and their rate is reported in files a second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

RATE_AIM = 200.0
START_AIM_S = 0.15
ROOT = Path(__file__).resolve().parent.parent
PEERS = (
    ("ruff", ("check", "--isolated", "--no-cache", "--exit-zero"), 2000),
    ("torchfix", (), 100),
    ("pylint", ("--disable=all", "--enable=E", "-j1"), 60),
)
"""Each with its arguments, and the maximum number of files it is given."""


def main() -> int:
    """Prints the figures; returns 1 if a target is missed."""
    options = _arguments()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        lines = build_tree(tree, options.files)
        print(f"generated tree: {options.files} files, {lines:,} lines")
        met = [_start_up(options.runs), _rate(tree, options)]
        if options.peers:
            _peers(Path(folder), tree, options)
    return 0 if all(met) else 1


def build_tree(folder: Path, count: int) -> int:
    """Write a tree of scripts, launchers, notebooks, modules and templates; returns its number of lines."""
    makers: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("train_{}.py", _torch_script),
        ("net_{}.py", _model),
        ("launch_{}.py", _launcher),
        ("util_{}.py", _utilities),
        ("keras_{}.py", _keras_script),
        ("data_{}.py", _utilities),
        ("book_{}.ipynb", _notebook),
        ("report_{}.py", _utilities),
        ("stack_{}.tf", _terraform),
        ("serve_{}.py", _handlers),
    )
    total = 0
    for number in range(count):
        name, make = makers[number % len(makers)]
        project = folder / f"project_{number // 40:03}"
        project.mkdir(parents=True, exist_ok=True)
        text = make(number // len(makers))
        total += text.count("\n")
        (project / name.format(number // len(makers))).write_text(text)
    return total


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast `gpuproof check` is.")
    parser.add_argument("--files", type=int, default=2000, help="of the generated tree")
    parser.add_argument("--runs", type=int, default=5, help="of each command; the median counts")
    parser.add_argument("--peers", action="store_true", help="install and time ruff, TorchFix and pylint too")
    return parser.parse_args()


def _start_up(runs: int) -> bool:
    script = ROOT / "examples" / "pytorch-digits" / "train.py"
    seconds = _median(["check", str(script)], max(runs, 7))[0]
    print(f"one script: {seconds:.3f} s (aim: under {START_AIM_S:.2f} s)")
    return seconds < START_AIM_S


def _rate(tree: Path, options: argparse.Namespace) -> bool:
    alone = _median(["check", str(ROOT / "examples"), "--exit-zero"], options.runs)
    print(f"examples/: {alone[0]:.3f} s")
    seconds, memory = _median(["check", str(tree), "--exit-zero"], options.runs)
    rate = options.files / seconds
    print(
        f"generated tree: {rate:.0f} files/s, {seconds:.2f} s, {memory / 1e6:.0f} MB (aim: {RATE_AIM:.0f} files/s)"
    )
    return rate >= RATE_AIM


def _median(words: Sequence[str], runs: int) -> tuple[float, int]:
    """Median seconds of a `gpuproof` command, and the peak memory of its largest process, in bytes."""
    gpuproof = Path(sys.executable).with_name("gpuproof")
    return _timed([str(gpuproof), *words], runs)


def _timed(command: Sequence[str], runs: int) -> tuple[float, int]:
    seconds: list[float] = []
    most = 0
    for _ in range(runs):
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(child.pid, 0)
        seconds.append(time.perf_counter() - started)
        # Linux reports kilobytes, macOS bytes.
        most = max(most, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    return statistics.median(seconds), most


def _peers(folder: Path, tree: Path, options: argparse.Namespace) -> None:
    for name, arguments, most in PEERS:
        environment = folder / f"venv-{name}"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = environment / "bin" / "python"
        done = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", name], capture_output=True, text=True
        )
        if done.returncode:
            print(f"{name}: cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            continue
        files = [str(path) for path in sorted(tree.rglob("*.py"))[:most]]
        seconds, memory = _timed(
            [str(environment / "bin" / name), *arguments, *files], 1 if most < 2000 else options.runs
        )
        start, _ = _timed([str(environment / "bin" / name), *arguments, files[0]], 3)
        rate = len(files) / seconds
        print(
            f"{name}: {rate:.1f} files/s over {len(files)} files, {memory / 1e6:.0f} MB; one file {start:.2f} s"
        )


def _torch_script(number: int) -> str:
    return f'''\
"""Trains model {number}."""
import argparse
import json
import logging
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from net_{number} import Net{number}

logger = logging.getLogger(__name__)


def loaders(args):
    train = TensorDataset(torch.randn(1000, 16), torch.randint(0, 2, (1000,)))
    test = TensorDataset(torch.randn(100, 16), torch.randint(0, 2, (100,)))
    return (
        DataLoader(train, batch_size=args.batch_size, shuffle=True, num_workers=4, pin_memory=True),
        DataLoader(test, batch_size=args.batch_size, num_workers=4),
    )


def train(model, loader, optimizer, device, epoch):
    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            logger.info("epoch %d step %d loss %.4f", epoch, step, loss.item())


def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            correct += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return correct / max(total, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default={number % 7 + 1})
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.0{number % 9 + 1})
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "model"))
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net{number}().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    train_loader, test_loader = loaders(args)
    for epoch in range(args.epochs):
        train(model, train_loader, optimizer, device, epoch)
        print(json.dumps({{"epoch": epoch, "accuracy": evaluate(model, test_loader, device)}}))
    torch.save(model.state_dict(), os.path.join(args.model_dir, "model.pth"))


if __name__ == "__main__":
    main()
'''


def _model(number: int) -> str:
    blocks = "\n".join(
        f"""
class Block{index}(nn.Module):
    def __init__(self, width={16 * index}):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = self.up(self.norm(x))
        return x + self.drop(self.down(torch.relu(h)))
"""
        for index in range(1, 5)
    )
    return f"""\
import torch
from torch import nn
{blocks}

class Net{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block1(), Block1(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)
"""


def _launcher(number: int) -> str:
    return f"""\
import sagemaker
from sagemaker.pytorch import PyTorch

session = sagemaker.Session()
role = sagemaker.get_execution_role()
instance_type = "ml.g5.{"12xlarge" if number % 10 == 0 else "xlarge"}"
hyperparameters = {{"epochs": {number % 7 + 1}, "batch-size": 64, "lr": 0.01}}

estimator = PyTorch(
    entry_point="train_{number}.py",
    role=role,
    instance_count=1,
    instance_type=instance_type,
    framework_version="2.3",
    py_version="py311",
    hyperparameters=hyperparameters,
    output_path=f"s3://{{session.default_bucket()}}/project",
    max_run=3600,
)
estimator.fit({{"train": f"s3://{{session.default_bucket()}}/train"}})
predictor = estimator.deploy(initial_instance_count=1, instance_type="ml.m5.large")
try:
    print(predictor.predict([[0.0] * 16]))
finally:
    predictor.delete_endpoint()
"""


def _keras_script(number: int) -> str:
    return f"""\
import os

import numpy as np
import tensorflow as tf


def dataset(n, batch):
    x = np.random.rand(n, 32).astype("float32")
    y = np.random.randint(0, 2, n)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(n)
    return data.map(lambda a, b: (a * 2.0, b), num_parallel_calls=tf.data.AUTOTUNE).batch(batch).prefetch(tf.data.AUTOTUNE)


strategy = tf.distribute.MirroredStrategy()
batch = {8 * (number % 8 + 1)} * strategy.num_replicas_in_sync
with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input((32,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(dataset(10_000, batch), epochs={number % 5 + 1}, validation_data=dataset(1000, batch))
model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))
"""


def _utilities(number: int) -> str:
    functions = "\n".join(
        f'''
def read_{number}_{index}(path, limit=None, strict=True):
    """Rows of a table as dictionaries."""
    rows = []
    with open(path, newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 1):
            if limit is not None and line > limit:
                break
            try:
                rows.append({{key.strip(): float(value) for key, value in row.items()}})
            except ValueError as error:
                if strict:
                    raise ValueError(f"{{path}}:{{line}}: {{error}}") from error
    return sorted(rows, key=lambda row: row.get("t{index}", 0.0))
'''
        for index in range(1, 9)
    )
    return f'"""Tables of experiment {number}."""\nimport csv\n\n{functions}'


def _handlers(number: int) -> str:
    return f"""\
import json
import os

import torch
from net_{number} import Net{number}


def model_fn(model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net{number}()
    path = os.path.join(model_dir, "model.pth")
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    return model.to(device).eval()


def input_fn(data, content_type):
    if content_type != "application/json":
        raise ValueError(content_type)
    return torch.tensor(json.loads(data))


def predict_fn(data, model):
    device = next(model.parameters()).device
    with torch.inference_mode():
        return model(data.to(device)).cpu()


def output_fn(prediction, accept):
    return json.dumps(prediction.tolist())
"""


def _notebook(number: int) -> str:
    sources = ["%pip install -q 'sagemaker<3'", "!ls", *_launcher(number).split("\n\n"), "# done"]
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _terraform(number: int) -> str:
    return f"""\
resource "aws_sagemaker_endpoint_configuration" "e{number}" {{
  production_variants {{
    variant_name           = "v"
    model_name             = aws_sagemaker_model.m.name
    instance_type          = "ml.g5.xlarge"
    initial_instance_count = 1
  }}
}}
"""


if __name__ == "__main__":
    sys.exit(main())
