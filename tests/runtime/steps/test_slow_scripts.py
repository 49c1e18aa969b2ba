"""Slow scripts in the styles that people write: the verdict names the cause, with its line.

Copies, launches and synchronization cost time only on a GPU: the readings of one are simulated for the time of the script.
`tests/runtime/steps/test_cuda_clock.py` has copies on a real one.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.verdict.steps import host_steps
from gpuproof.agent.verdict.stragglers import find_straggler
from support.gpu_timelines import JOB, TRAINING, cpu, gpu, watched
from support.ports import free_port, free_ports
from support.step_scripts import bottleneck, bottleneck_on_gpu, line_of, recorded
from support.timed_scripts import run_timed

pytestmark = pytest.mark.slow

KERAS = """
import time
import keras
import numpy as np
import tensorflow as tf

def read(number):
    time.sleep({read_s})
    return np.float32([number, 1, 2, 3])

def load(number):
    row = tf.py_function(read, [number], tf.float32)
    row.set_shape([4])
    return row, tf.reduce_sum(row)

train = tf.data.Dataset.range(60).map(load).batch(4)
held_out = tf.data.Dataset.range({held_out}).map(load).batch(4)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=3, verbose=0, validation_data=held_out, callbacks=[{callbacks}])
"""


def test_keras_waiting_for_input(tmp_path: Path) -> None:
    code = KERAS.format(read_s=0.02, held_out=4, callbacks="")
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "input"
    assert f"tf.data pipeline at train.py:{line_of(code, 'train = ')} maps in one thread" in found.sentence


def test_keras_evaluating_most_of_the_time(tmp_path: Path) -> None:
    code = KERAS.format(read_s=0.01, held_out=400, callbacks="")
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "evaluation"
    assert f"evaluate in fit at train.py:{line_of(code, 'model.fit')} ran 3 times" in found.sentence


def test_keras_saving_after_each_step(tmp_path: Path) -> None:
    saves = "keras.callbacks.ModelCheckpoint('model.keras', save_freq=1)"
    code = KERAS.format(read_s=0.0, held_out=4, callbacks=saves)
    code = code.replace(
        "keras.layers.Dense(1)", "*[keras.layers.Dense(400) for _ in range(9)], keras.layers.Dense(1)"
    )
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "checkpoint"
    assert f"ModelCheckpoint at train.py:{line_of(code, 'model.fit')} ran " in found.sentence


PLAIN = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(4), torch.ones(1)

train = DataLoader(Rows(80), batch_size=4)
held_out = DataLoader(Rows({held_out}), batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(3):
    for x, y in train:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            model(x)
"""


def test_plain_pytorch_waiting_for_input(tmp_path: Path) -> None:
    code = PLAIN.format(held_out=4)
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "input"
    assert found.sentence.endswith(
        f"DataLoader at train.py:{line_of(code, 'train = ')} has 0 workers; the instance has 8 vCPUs: set num_workers=7."
    )


def test_plain_pytorch_evaluating_most_of_the_time(tmp_path: Path) -> None:
    found = bottleneck(recorded(tmp_path, PLAIN.format(held_out=400)))
    assert found is not None
    assert found.kind == "evaluation"


TRAINER = """
import time
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

class Rows(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.01)
        return {{"x": torch.ones(4), "labels": torch.ones(1)}}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        y = self.layer(x)
        return {{"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}}

arguments = TrainingArguments(
    "out", num_train_epochs=3, per_device_train_batch_size=4, per_device_eval_batch_size=4, report_to=[],
    save_strategy="no", eval_strategy="epoch", use_cpu=True, disable_tqdm=True,
)
Trainer(Model(), arguments, train_dataset=Rows(80), eval_dataset=Rows({held_out})).train()
"""


@pytest.mark.parametrize(("held_out", "kind"), [(4, "input"), (400, "evaluation")])
def test_the_trainer_waiting_for_input_and_evaluating(tmp_path: Path, held_out: int, kind: str) -> None:
    document = recorded(tmp_path, TRAINER.format(held_out=held_out))
    assert document["loop"] == "transformers"
    found = bottleneck(document)
    assert found is not None
    assert found.kind == kind


LAYERS = (
    "torch.nn.Sequential(torch.nn.Linear(4, 999), "
    "*[torch.nn.Linear(999, 999) for _ in range(6)], torch.nn.Linear(999, 1))"
)
STYLES = {
    "plain": PLAIN.format(held_out=4)
    .replace("time.sleep(0.01)", "pass")
    .replace("torch.nn.Linear(4, 1)", LAYERS),
    "transformers": TRAINER.format(held_out=4)
    .replace("time.sleep(0.01)", "pass")
    .replace("torch.nn.Linear(4, 1)", LAYERS),
    "keras": KERAS.format(read_s=0.0, held_out=4, callbacks="")
    .replace(".map(load)", ".map(lambda number: (tf.ones(4), 1.0))")
    # Its first evaluation traces the model, which takes long on a busy machine.
    .replace(" validation_data=held_out,", "")
    .replace("keras.layers.Dense(1)", "*[keras.layers.Dense(999) for _ in range(7)], keras.layers.Dense(1)"),
}
"""Scripts whose steps mostly compute."""
EACH_BATCH = """
class Each(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        model.layers[0].kernel.value.numpy()

model.fit(train, epochs=3, verbose=0, callbacks=[Each()])
"""
READS = {
    "plain": ("        optimizer.step()", "        optimizer.step()\n        x.sum().item()"),
    "transformers": ('        return {"loss"', '        y.sum().item()\n        return {"loss"'),
    "keras": (
        "model.fit(train, epochs=3, verbose=0, callbacks=[])",
        EACH_BATCH,
    ),
}
"""What is replaced in a style so that each step reads a value."""
ONE_CORE = watched(60, gpu(20, mib=8000, pids={JOB: 7900}), cpu=cpu(0.99))


@pytest.mark.parametrize("style", STYLES)
def test_a_value_that_each_step_reads_is_named_with_its_line(tmp_path: Path, style: str) -> None:
    code = STYLES[style].replace(*READS[style])
    document = recorded(tmp_path, code)
    read = document["locations"]["synchronization"]
    text = ".numpy()" if style == "keras" else ".item()"
    assert (read["what"], read["line"]) == (text, line_of(code, text))
    # On a GPU, the script waits here for the step.
    read["seconds"] = 0.5 * document["seconds"]
    found = bottleneck_on_gpu(document, ONE_CORE)
    assert found is not None
    assert found.kind == "synchronization"
    assert f"{text} at train.py:{read['line']} waits for the GPU in each step" in found.sentence


@pytest.mark.parametrize("style", STYLES)
def test_kernels_that_are_too_short_for_the_gpu_are_named(tmp_path: Path, style: str) -> None:
    document = recorded(tmp_path, STYLES[style])
    found = bottleneck_on_gpu(document, ONE_CORE)
    assert found is not None
    assert found.kind == "launch-bound"
    assert f"python (process {JOB}) ran at 99% of one core" in found.sentence


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("source", ["performance counters", "power"])
def test_copies_that_take_most_of_the_time_are_named(tmp_path: Path, style: str, source: str) -> None:
    copies = (
        {"counters": replace(TRAINING, sm_active=0.12, dram_active=0.05, pcie_bytes_per_s=6e9)}
        if source == "performance counters"
        else {"power_w": 40.0, "pcie_bytes_per_s": 6e9}
    )
    telemetry = watched(60, gpu(98, mib=8000, pids={JOB: 7900}, **copies), cpu=cpu(0.4))
    found = bottleneck_on_gpu(recorded(tmp_path, STYLES[style]), telemetry)
    assert found is not None
    assert found.kind == "copy"
    assert "its kernels probably wait for copies, 6.0 GB/s over PCIe" in found.sentence


DDP = """
import os, time
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()

class Rows(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(0.1 * rank)
        return torch.ones(4), torch.ones(1)

loader = DataLoader(Rows())
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
torch.distributed.destroy_process_group()
"""


def test_ranks_of_pytorch_that_wait_for_the_input_of_one(tmp_path: Path) -> None:
    timed = run_timed(
        tmp_path, DDP, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"
    )
    assert timed.code == 0, timed.errors
    steps = host_steps(timed.records)
    assert steps is not None
    found = find_straggler(steps.ranks, {})
    assert found is not None
    assert (found.rank, found.cause) == (1, "input")
    assert f"(DataLoader at train.py:{line_of(DDP, 'loader = ')})" in found.sentence


def test_ranks_of_the_trainer_that_wait_for_the_input_of_one(tmp_path: Path) -> None:
    code = TRAINER.format(held_out=4).replace("time.sleep(0.01)", "time.sleep(0.1 * int(os.environ['RANK']))")
    code = code.replace("import time", "import os, time").replace('="epoch"', '="no"')
    code = code.replace("train_batch_size=4", "train_batch_size=1")
    timed = run_timed(
        tmp_path, code, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"
    )
    assert timed.code == 0, timed.errors
    steps = host_steps(timed.records)
    assert steps is not None
    found = find_straggler(steps.ranks, {})
    assert found is not None
    assert (found.rank, found.cause) == (1, "input")
    assert f"(DataLoader at train.py:{line_of(code, 'Trainer(Model')})" in found.sentence


STRAGGLER = """
import json, os, time
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

def rows():
    for number in range(60):
        time.sleep(0.1 * rank)
        yield np.float32([number, 1, 2, 3])

def read(context):
    rows_of_rank = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((4,), tf.float32))
    return rows_of_rank.batch(1)

with strategy.scope():
    weights = tf.Variable(tf.zeros((4, 1)))

@tf.function
def train(x):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - 1) ** 2)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
        weights.assign_sub(1e-6 * gradient)
        return loss
    return strategy.run(step, (x,))

for x in strategy.distribute_datasets_from_function(read):
    train(x)
"""


def test_tensorflow_workers_that_wait_for_the_input_of_one(tmp_path: Path) -> None:
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]

    def worker(index: int) -> dict[str, object]:
        folder = tmp_path / str(index)
        folder.mkdir()
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        return recorded(folder, STRAGGLER, TF_CONFIG=json.dumps(task))

    with ThreadPoolExecutor() as pool:
        steps = host_steps(list(pool.map(worker, range(2))))
    assert steps is not None
    found = find_straggler(steps.ranks, {})
    assert found is not None
    assert (found.rank, found.cause) == (1, "input")
    assert f"(tf.data pipeline at train.py:{line_of(STRAGGLER, 'from_generator')})" in found.sentence
