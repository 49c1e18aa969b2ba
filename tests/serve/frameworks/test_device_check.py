"""A model that was left on the CPU is found, wherever in the answer of `model_fn` it hides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuproof.runtime.models import torch_models
from gpuproof.serve.frameworks.device_check import (
    KERAS_ADVICE,
    MIB,
    ModelPart,
    describe_location,
    evaluate_device,
    find_model_parts,
    why_torch_has_no_gpu,
)
from gpuproof.serve.interface import Device, Request
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import Settings
from support.cuda_stub import CUDA_VARIABLE, build_cuda

GPU = Device("cuda", 0)


def test_a_model_on_the_cpu_beside_a_gpu_is_not_ok_and_names_the_line_to_add() -> None:
    found = evaluate_device(
        [ModelPart("ResNet", 44 * MIB, 0)], GPU, "model_fn (code/inference.py, line 12)", 0, 10
    )
    assert not found.ok
    assert "code/inference.py, line 12" in found.message
    assert "ResNet" in found.message
    assert "44.0 MiB" in found.message
    assert "model.to(torch.device" in found.message


def test_a_model_on_the_gpu_is_ok() -> None:
    found = evaluate_device([ModelPart("ResNet", 0, 44 * MIB)], GPU, "model_fn", 100, 100 + 44 * MIB)
    assert (found.ok, found.message, found.gpu_memory) == (True, "", 44 * MIB)


def test_a_split_model_is_reported_and_ok() -> None:
    found = evaluate_device([ModelPart("Llama", MIB, 3 * MIB)], GPU, "model_fn", None, None)
    assert found.ok
    assert "1.0 MiB" in found.message


def test_without_a_gpu_nothing_is_wrong() -> None:
    assert evaluate_device([ModelPart("ResNet", MIB, 0)], Device(), "model_fn", None, None).ok


def test_nothing_found_and_no_memory_taken_is_a_doubt() -> None:
    found = evaluate_device([], GPU, "model_fn", 5, 5)
    assert found.ok
    assert "may compute on the CPU" in found.message
    assert evaluate_device([], GPU, "model_fn", 5, 5 + 40 * MIB).message == ""


def test_tensorflow_gets_advice_of_its_own() -> None:
    found = evaluate_device([ModelPart("Functional", MIB, 0)], GPU, "model_fn", None, None, KERAS_ADVICE)
    assert not found.ok
    assert "gpuproof doctor" in found.message
    assert "model.to(" not in found.message


def test_the_handlers_line_is_found() -> None:
    def model_fn(model_dir: str) -> None: ...

    assert describe_location(model_fn).startswith("model_fn (")
    assert "test_device_check.py, line " in describe_location(model_fn)
    assert describe_location(len) == "len"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bare", "tuple", "dict", "attribute", "nested", "closure", "script"])
def test_pytorchs_parameters_are_found_wherever_they_are(form: str) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(4, 2)

    class Holder:
        def __init__(self, model: Any) -> None:
            self.model = model

    def closed_over(data: Any) -> Any:
        return net(data)

    given = {
        "bare": net,
        "tuple": (net, "tokenizer"),
        "dict": {"model": net, "labels": ["a"]},
        "attribute": Holder(net),
        "nested": {"service": Holder([net])},
        "closure": closed_over,
        "script": torch.jit.trace(net, torch.zeros(1, 4)),
    }[form]
    assert [(part.on_cpu, part.on_gpu) for part in find_model_parts(given)] == [(40, 0)]


@pytest.mark.slow
def test_parameters_elsewhere_are_not_counted_as_the_cpus() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(4, 2, device="meta")
    assert [(part.on_cpu, part.on_gpu) for part in find_model_parts(net)] == [(0, 40)]


@pytest.mark.slow
def test_keras_variables_are_found() -> None:
    pytest.importorskip("tensorflow")
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    assert [(part.on_cpu, part.on_gpu) for part in find_model_parts({"model": model})] == [(40, 0)]


def test_what_is_not_a_model_has_no_parts_and_ends() -> None:
    class Ring:
        def __init__(self) -> None:
            self.other = self

    assert find_model_parts(Ring()) == []
    assert find_model_parts({"a": [1, "b", None]}) == []


class Build:
    """The attributes of a PyTorch build that are read."""

    def __init__(self, cuda: str | None, *, usable: bool) -> None:
        self.__version__ = "2.13.0" if cuda else "2.13.0+cpu"
        self.version = SimpleNamespace(cuda=cuda, hip=None)
        self.cuda = SimpleNamespace(is_available=lambda: usable)


def test_a_pytorch_that_cannot_use_a_gpu_reports_why() -> None:
    assert why_torch_has_no_gpu(None) == why_torch_has_no_gpu(Build("13.0", usable=True)) == ""
    assert "PyTorch 2.13.0+cpu is a CPU-only build" in why_torch_has_no_gpu(Build(None, usable=False))
    assert "gpuproof doctor" in why_torch_has_no_gpu(Build("13.0", usable=False))


# With the driver library that LD_LIBRARY_PATH names, which is read at the start of a process.
ASK = """
from types import SimpleNamespace as S
from gpuproof.serve.frameworks.device_check import why_torch_has_no_gpu
cuda = S(is_available=lambda: False)
print(why_torch_has_no_gpu(S(__version__="2.13.0", version=S(cuda={built!r}, hip=None), cuda=cuda)))
"""


@pytest.mark.parametrize(
    ("built", "driver", "words"),
    [
        ("13.0", 12020, ["too old for torch 2.13.0", "CUDA up to 12.2", "InferenceAmiVersion"]),
        ("12.4", 12020, ["gpuproof doctor"]),
        ("13.0", 13000, ["gpuproof doctor"]),
        ("13.0", None, ["gpuproof doctor"]),
    ],
)
def test_a_driver_too_old_for_torch_is_named_with_its_remedy(
    built: str, driver: int | None, words: list[str], tmp_path: Path
) -> None:
    environment = dict(os.environ)
    if driver is not None:
        (tmp_path / "cuda.txt").write_text(f"version {driver}\n")
        environment[CUDA_VARIABLE] = str(tmp_path / "cuda.txt")
        environment["LD_LIBRARY_PATH"] = str(build_cuda(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(built=built)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(word in done.stdout for word in words)


@pytest.mark.slow
def test_a_build_for_the_cpu_serves_a_model_without_a_handler_on_the_cpu_with_a_warning(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this PyTorch uses the GPU")
    torch.jit.trace(torch.nn.Linear(2, 1), torch.zeros(1, 2)).save(tmp_path / "model.pt")
    model = load_model(tmp_path, Settings(), GPU)
    request = Request(b"[[1, 2]]", "application/json")
    assert model.encode(model.predict(model.decode(request), request), request).status == 200
    assert not model.device_report.ok
    assert "is a CPU-only build" in model.device_report.message
    assert "Before it returns" not in model.device_report.message
    model.unload()


@pytest.mark.slow
def test_what_gpuproof_saved_is_served_without_the_handler_beside_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch_models.save(torch.nn.Linear(2, 1), tmp_path, {}, torch.zeros(2, 2))
    shutil.rmtree(tmp_path / "code")
    model = load_model(tmp_path, Settings(), Device())
    request = Request(b"[[1, 2], [3, 4]]", "application/json")
    assert len(model.predict(model.decode(request), request)) == 2
    model.unload()
