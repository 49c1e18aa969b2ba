"""`checkpoint()`: interrupted anywhere, training goes on from the last whole state."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuproof.runtime as rt
from support.cli_sandbox import until
from support.runtime_script import Script


def numbers(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


def train(folder: Path, epochs: int, stop_after: int | None = None, **options: Any) -> list[int]:
    """Counts up in a dict for some epochs; the epochs that were done."""
    state: dict[str, Any] = {"count": 0, "history": np.zeros(0)}
    kept = rt.checkpoint(state=state, folder=folder, **options)
    done: list[int] = []
    for epoch in kept.epochs(epochs):
        assert state["count"] == epoch
        assert state["history"].tolist() == list(range(epoch))
        state["count"] += 1
        state["history"] = np.append(state["history"], epoch)
        done.append(epoch)
        if epoch == stop_after:
            break
    return done


def test_a_broken_training_goes_on_with_the_epoch_that_was_not_done(tmp_path: Path) -> None:
    assert train(tmp_path, 5, stop_after=2) == [0, 1, 2]
    assert train(tmp_path, 5) == [2, 3, 4]
    assert train(tmp_path, 5) == []


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    train(tmp_path, 6, keep=3)
    assert numbers(tmp_path) == [4, 5, 6]


@pytest.mark.parametrize("harm", ["truncate", "remove", "no-about"])
def test_a_checkpoint_that_is_not_whole_is_passed_over(tmp_path: Path, harm: str) -> None:
    train(tmp_path, 3)
    newest = tmp_path / "checkpoint-00000003"
    if harm == "truncate":
        (newest / "state.npz").write_bytes(b"PK")
    elif harm == "remove":
        (newest / "state.json").unlink()
    else:
        (newest / "checkpoint.json").unlink()
    assert train(tmp_path, 3) == [2]


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-77").mkdir()
    train(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]


def test_clear_lets_the_next_run_begin_anew(tmp_path: Path) -> None:
    train(tmp_path, 2)
    rt.checkpoint(state={"count": 0, "history": np.zeros(0)}, folder=tmp_path).clear()
    assert train(tmp_path, 2) == [0, 1]


def test_steps_are_saved_as_often_as_requested_and_not_repeated(tmp_path: Path) -> None:
    def run(until_step: int) -> list[tuple[int, str]]:
        state: dict[str, Any] = {"seen": []}
        kept = rt.checkpoint(state=state, folder=tmp_path, every_steps=2)
        seen: list[tuple[int, str]] = []
        for epoch in kept.epochs(2):
            for batch in kept.steps("abcd"):
                seen.append((epoch, batch))
                if len(seen) == until_step:
                    return seen
        return seen

    assert run(4)[-1] == (0, "d")
    # Two steps were saved; the third and the fourth are done again.
    assert run(99) == [(0, "c"), (0, "d"), (1, "a"), (1, "b"), (1, "c"), (1, "d")]


def test_every_seconds_takes_precedence_when_set(tmp_path: Path) -> None:
    kept = rt.checkpoint(state={}, folder=tmp_path, every_seconds=3600)
    for _ in kept.epochs(3):
        for _ in kept.steps(range(5)):
            pass
    # The last epoch's end alone.
    assert numbers(tmp_path) == [1]
    often = rt.checkpoint(state={}, folder=tmp_path / "often", every_seconds=0, keep=9)
    for _ in often.steps(range(3)):
        pass
    assert numbers(tmp_path / "often") == [1, 2, 3]


def test_values_of_every_plain_kind_come_back(tmp_path: Path) -> None:
    values = {
        "n": 1,
        "x": 0.5,
        "name": "été",
        "flag": True,
        "nothing": None,
        "list": [1, [2.5]],
        "array": np.arange(6, dtype="int16").reshape(2, 3),
        "scalar": np.float32(0.25),
        "inner": {"best": {"loss": float("inf")}},
    }
    rt.checkpoint(state=values, folder=tmp_path).save()
    found: dict[str, Any] = {"gone": 1}
    assert rt.checkpoint(state=found, folder=tmp_path).resumed
    assert found.pop("array").tolist() == [[0, 1, 2], [3, 4, 5]]
    del values["array"]
    assert found == values


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"f": print}, "cannot save <built-in function print>"),
        ({1: 2}, "text keys"),
        (object(), "cannot save a object"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_once(tmp_path: Path, state: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        rt.checkpoint(state=state, folder=tmp_path)


@pytest.mark.parametrize("options", [{}, {"keep": 0, "state": {}}, {"every_steps": 0, "state": {}}])
def test_an_impossible_request_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"checkpoint\(\)"):
        rt.checkpoint(folder=tmp_path, **options)


def test_another_scripts_checkpoint_is_not_taken(tmp_path: Path) -> None:
    rt.checkpoint(progress={}, folder=tmp_path).save()
    with pytest.raises(rt.CheckpointMismatch, match=r"contains progress \(values\).*saves state \(values\)"):
        rt.checkpoint(state={}, folder=tmp_path)


def test_another_rank_reads_and_does_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, 2)
    monkeypatch.setenv("RANK", "1")
    assert train(tmp_path, 3) == [2]
    assert numbers(tmp_path) == [1, 2]


LOOP = """
import os, time, gpuproof.runtime as rt
state = {"steps": 0}
kept = rt.checkpoint(state=state, folder="kept")
print("began", kept.progress.epoch, kept.progress.step, state["steps"], flush=True)
for epoch in kept.epochs(3):
    for _ in kept.steps(range(100_000)):
        state["steps"] += 1
        time.sleep(0.005)
print("done", state["steps"])
"""


@pytest.mark.slow
def test_sigterm_saves_at_the_steps_end_and_leaves_with_143(script: Script) -> None:
    (script.folder / "train.py").write_text(LOOP)
    process = subprocess.Popen(
        [sys.executable, "-u", "train.py"],
        cwd=script.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "after SIGTERM; the next attempt resumes from there" in errors
    manifest = json.loads(next((script.folder / "kept").glob("*/checkpoint.json")).read_text())
    steps = manifest["progress"]["step"]
    assert 0 < steps < 100_000
    again = script(LOOP.replace("time.sleep(0.005)", "pass"))
    assert again.splitlines() == [f"began 0 {steps} {steps}", "done 300000"]


def test_a_forked_process_ends_on_sigterm_as_ever(script: Script) -> None:
    output = script("""
import multiprocessing, os, signal, time, gpuproof.runtime as rt
rt.checkpoint(state={}, folder="kept")
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
child.terminate()
child.join(300)
print(child.exitcode)
""")
    assert output == "-15\n"


@pytest.mark.slow
def test_a_killed_process_leaves_only_whole_checkpoints(script: Script) -> None:
    code = """
import numpy, gpuproof.runtime as rt
state = {"n": 0, "array": numpy.zeros(100000)}
kept = rt.checkpoint(state=state, folder="kept", every_steps=1)
for _ in kept.epochs(10**6):
    for _ in kept.steps(range(10**6)):
        state["n"] += 1
        state["array"] += 1
"""
    (script.folder / "train.py").write_text(code)
    process = subprocess.Popen([sys.executable, "train.py"], cwd=script.folder)
    until(lambda: max(numbers(script.folder / "kept"), default=0) > 20, "twenty checkpoints")
    process.kill()
    process.wait()
    state: dict[str, Any] = {}
    kept = rt.checkpoint(state=state, folder=script.folder / "kept")
    assert kept.resumed
    assert state["n"] == kept.progress.total_steps > 10
    assert set(state["array"].tolist()) == {float(state["n"])}


TORCH = """
import torch, gpuproof.runtime as rt
x = torch.arange(12.0).reshape(4, 3)
def fit(folder, epochs, width=4):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    kept = rt.checkpoint(model=model, optimizer=optimizer, schedule=schedule, folder=folder)
    for epoch in kept.epochs(epochs):
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        optimizer.step()
        schedule.step()
    return [p.flatten().tolist() for p in model.parameters()], schedule.get_last_lr()
straight = fit("straight", 5)
fit("broken", 3)
print(fit("broken", 5) == straight)
try:
    fit("broken", 5, width=7)
except rt.CheckpointMismatch as error:
    print("does not match this script's model or optimizer" in str(error), "rm -r" in str(error))
"""


@pytest.mark.slow
def test_torch_goes_on_to_the_very_same_weights_and_refuses_another_model(script: Script) -> None:
    assert script(TORCH, imported="torch") == "True\nTrue True\n"


KERAS = """
import keras, numpy as np, tensorflow as tf, gpuproof.runtime as rt
def build():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model
x = np.arange(12.0, dtype="float32").reshape(4, 3)
y = np.ones((4, 1), "float32")
def fit(folder, epochs, *more):
    model = build()
    kept = rt.checkpoint(model=model, folder=folder)
    model.fit(x, y, epochs=epochs, initial_epoch=kept.epoch, callbacks=[*more, kept.callback()], verbose=0, shuffle=False)
    return kept.epoch, model.get_weights()
_, straight = fit("straight", 4)
fit("broken", 2)
epoch, resumed = fit("broken", 4)
print(epoch, all(np.array_equal(a, b) for a, b in zip(straight, resumed)))

import os, signal
class Interrupt(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        os.kill(os.getpid(), signal.SIGTERM)
try:
    fit("interrupted", 4, Interrupt())
except SystemExit as stopped:
    print("left with", stopped.code, os.listdir("interrupted"))

counter = tf.Variable(3.0)
rt.checkpoint(counter=counter, folder="variable").save()
counter.assign(0.0)
rt.checkpoint(counter=counter, folder="variable")
print(counter.numpy())
try:
    rt.checkpoint(model=keras.Sequential([keras.layers.Dense(1)]), folder="broken")
except TypeError as error:
    print("start it with keras.Input" in str(error))
"""


@pytest.mark.slow
def test_keras_goes_on_to_the_very_same_weights(script: Script) -> None:
    assert script(KERAS, imported="tensorflow").splitlines() == [
        "4 True",
        "left with 143 ['checkpoint-00000001']",
        "3.0",
        "True",
    ]
