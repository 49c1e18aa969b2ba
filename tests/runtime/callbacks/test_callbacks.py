"""Callbacks that report the utilization of the GPUs, in real trainings on a machine with the stub NVML."""

from __future__ import annotations

import importlib.util
import json

import pytest

from support.optional_packages import skip_without
from support.watch_machine import WatchMachine

skip_without("torch", "transformers", "accelerate", "lightning", "keras")

pytestmark = pytest.mark.slow

UNUSED = "No process of the job opened a GPU."
HEAD = """
import csv, json, os, sys
import gpuproof.runtime as rt

def work():
    exec(os.environ["WORKS"])
"""
KERAS = (
    HEAD
    + """
import keras, numpy
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(
    numpy.ones((8, 2)), numpy.ones((8, 1)), epochs=2, verbose=0,
    callbacks=[
        keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: work()),
        rt.callbacks.KerasGpuCallback(),
        keras.callbacks.CSVLogger("log.csv"),
    ],
)
rows = list(csv.DictReader(open("log.csv")))
columns = [[str(float(row["gpu_utilization"])) for row in rows], [str(value) for value in history.history["gpu_utilization"]]]
assert columns[0] == columns[1]
print(json.dumps([history.history["gpu_utilization"], history.history["gpu_memory_gib"]]))
"""
)
TORCH = (
    HEAD
    + """
import torch
from torch.utils.data import DataLoader

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, index): return {"x": torch.ones(2), "labels": torch.ones(1)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)
    def forward(self, x, labels):
        work()
        return {"loss": (self.linear(x) - labels).square().mean()}
"""
)
LIGHTNING = (
    TORCH
    + """
import lightning
from lightning.pytorch.loggers import CSVLogger
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()
    def training_step(self, batch, index): return self.model(**batch)["loss"]
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
trainer = lightning.Trainer(
    accelerator="cpu", max_epochs=1, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=2,
    enable_checkpointing=False, logger=CSVLogger("logs", name="", version=""), callbacks=[rt.callbacks.LightningGpuCallback()],
)
trainer.fit(Module(), DataLoader(Rows(), 4))
rows = list(csv.DictReader(open("logs/metrics.csv")))
print(json.dumps([[float(row[name]) for row in rows] for name in ("gpu_utilization", "gpu_memory_gib")]))
"""
)
TRAINER = (
    TORCH
    + """
from transformers import Trainer, TrainerCallback, TrainingArguments
class Reporter(TrainerCallback):
    "Reports before the callback, as those of report_to do."
    logged = []
    def on_log(self, args, state, control, logs=None, **kwargs): self.logged.append(dict(logs))
arguments = TrainingArguments(
    "out", max_steps=2, logging_steps=1, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True,
    save_strategy="no",
)
trainer = Trainer(Model(), arguments, train_dataset=Rows(), callbacks=[Reporter, rt.callbacks.TrainerGpuCallback()])
trainer.train()
steps = [logs for logs in Reporter.logged if "loss" in logs]
assert [{**logs, "step": step} for step, logs in enumerate(steps, 1)] == trainer.state.log_history[:2]
assert "gpu_utilization" not in Reporter.logged[-1]
rows = [[logs[name] for logs in steps] for name in ("gpu_utilization", "gpu_memory_gib")]
sys.stdout.flush()
print("\\n" + json.dumps(rows))
"""
)
ACCELERATE = (
    TORCH
    + """
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
class Tracker(GeneralTracker):
    name, requires_logging_directory = "list", False
    logged = []
    tracker = logged
    def store_init_configuration(self, values): pass
    def log(self, values, step=None): self.logged.append((step, values))
accelerator = Accelerator(cpu=True, log_with=Tracker())
accelerator.init_trackers("project")
gpus = rt.callbacks.AccelerateGpuLogger(accelerator)
model, batches = accelerator.prepare(Model(), DataLoader(Rows(), 8))
for step, batch in enumerate(batches):
    gpus.log({"loss": model(**batch)["loss"].item()}, step=step)
gpus.end()
assert [(step, "loss" in values) for step, values in Tracker.logged] == [(0, True), (1, True)]
print(json.dumps([[values[name] for _, values in Tracker.logged] for name in ("gpu_utilization", "gpu_memory_gib")]))
"""
)
ANY_LOGGER = (
    HEAD
    + """
rt.watch()
rt.callbacks.gpu_metrics()
rows = []
for step in range(2):
    work()
    rows.append(rt.callbacks.gpu_metrics())
print(json.dumps([[row[name] for row in rows] for name in ("gpu_utilization", "gpu_memory_gib")]))
"""
)
TRAININGS = {
    "keras": KERAS,
    "lightning": LIGHTNING,
    "trainer": TRAINER,
    "accelerate": ACCELERATE,
    "any": ANY_LOGGER,
}


@pytest.mark.parametrize("framework", TRAININGS)
def test_a_training_logs_utilization_and_memory(machine: WatchMachine, framework: str):
    ended = machine.run(
        TRAININGS[framework], WORKS=machine.works, CUDA_VISIBLE_DEVICES="0", KERAS_BACKEND="torch"
    )
    assert ended.returncode == 0, ended.stderr
    utilization, memory = json.loads(ended.stdout.splitlines()[-1])
    assert len(utilization) == len(memory) == 2
    assert all(0 < percent <= 100 for percent in utilization)
    assert max(memory) == pytest.approx(4000 / 1024)
    assert ended.stderr.count("\nenergy ") == 1, ended.stderr


def test_a_training_on_the_cpu_ends_with_exit_code_4_unless_no_gpu_is_required(machine: WatchMachine):
    script = KERAS.replace("lambda epoch, logs: work()", "None")
    for arguments, code in (("", 4), ("require_gpu=False", 0)):
        ended = machine.run(
            script.replace("KerasGpuCallback()", f"KerasGpuCallback({arguments})"), KERAS_BACKEND="torch"
        )
        assert ended.returncode == code, ended.stderr
        assert UNUSED in ended.stderr


def test_several_gpus_have_a_metric_each(machine: WatchMachine):
    machine.scenario.gpu(1)
    ended = machine.run(
        f"{HEAD}\nrt.watch(gpus=1)\nwork()\nprint(json.dumps(rt.callbacks.gpu_metrics()))",
        WORKS=machine.works,
    )
    metrics = json.loads(ended.stdout)
    assert metrics["gpu_1_utilization"] == 0 < metrics["gpu_0_utilization"]
    assert metrics["gpu_utilization"] == pytest.approx(metrics["gpu_0_utilization"] / 2)
    assert {"gpu_0_memory_gib", "gpu_1_memory_gib", "gpu_memory_gib"} <= metrics.keys()


def test_no_framework_is_imported_before_its_callback_is_used(machine: WatchMachine):
    names = ("torch", "keras", "lightning", "transformers", "accelerate")
    assert all(importlib.util.find_spec(name) for name in names)
    script = f"import sys\nimport gpuproof.runtime as rt\nrt.callbacks.AccelerateGpuLogger\nprint(set({names}) & set(sys.modules))"
    assert machine.run(script).stdout == "set()\n"


def test_a_callback_can_be_pickled_for_trainers_that_start_processes(machine: WatchMachine):
    script = """
import pickle
import gpuproof.runtime as rt
for name in ("LightningGpuCallback", "TrainerGpuCallback"):
    callback = getattr(rt.callbacks, name)(require_gpu=False)
    print(type(pickle.loads(pickle.dumps(callback))) is getattr(rt.callbacks, name))
"""
    assert machine.run(script).stdout == "True\nTrue\n"
