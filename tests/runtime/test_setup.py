"""`setup()` with real frameworks: what it applies, and what it reports as too late."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.nvml_stub import Scenario
from support.runtime_script import Script

Machine = Callable[..., Scenario]

pytestmark = pytest.mark.slow


def test_before_any_import_it_sets_the_environment_and_imports_nothing(script: Script) -> None:
    output = script("""
import json, os, sys, gpuproof.runtime as rt
rt.setup(threads=2, allocator="async", visible_devices=[1], variables={"TF_ENABLE_ONEDNN_OPTS": "0"})
names = ("TF_FORCE_GPU_ALLOW_GROWTH", "TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "TF_GPU_ALLOCATOR",
         "PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "TF_ENABLE_ONEDNN_OPTS")
print(json.dumps([{name: os.environ.get(name) for name in names}, "torch" in sys.modules or "tensorflow" in sys.modules]))
""")
    assert json.loads(output) == [
        {
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "TF_NUM_INTRAOP_THREADS": "2",
            "OMP_NUM_THREADS": "2",
            "TF_GPU_ALLOCATOR": "cuda_malloc_async",
            "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
            "CUDA_VISIBLE_DEVICES": "1",
            "TF_ENABLE_ONEDNN_OPTS": "0",
        },
        False,
    ]


def test_a_users_own_variable_is_kept_and_reported(script: Script) -> None:
    done = script.done(
        "import os, gpuproof.runtime as rt; rt.setup(); print(os.environ['TF_FORCE_GPU_ALLOW_GROWTH'])",
        TF_FORCE_GPU_ALLOW_GROWTH="false",
    )
    assert done.stdout == "false\n"
    assert (
        "TF_FORCE_GPU_ALLOW_GROWTH = true: the environment already sets 'false', which takes precedence"
        in done.stderr
    )


def test_visible_devices_count_among_those_that_the_environment_shows(script: Script) -> None:
    output = script(
        """
import os, gpuproof.runtime as rt
for chosen in ([1, 2], [1, 2], [0]):
    rt.setup(visible_devices=chosen)
    print(os.environ["CUDA_VISIBLE_DEVICES"])
""",
        CUDA_VISIBLE_DEVICES="4,5,6",
    )
    assert output.split() == ["5,6", "5,6", "4"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("visible_devices=[3]", "CUDA_VISIBLE_DEVICES=0,1 shows only 2"),
        ("visible_devices=['a']", "GPU indexes from 0"),
        ("mixed_precision='fp8'", "'auto', 'bfloat16', 'float16' or None"),
        ("framework='jax'", "'tensorflow' (also for Keras) or 'torch'"),
    ],
)
def test_an_impossible_value_is_refused(script: Script, call: str, words: str) -> None:
    done = script.done(f"import gpuproof.runtime as rt\nrt.setup({call})", CUDA_VISIBLE_DEVICES="0,1")
    assert "ValueError" in done.stderr
    assert words in done.stderr


@pytest.fixture(scope="module")
def tensorflow_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One script in which settings come in time, again, and too late."""
    run = Script(tmp_path_factory.mktemp("tensorflow"))
    done = run.done(
        """
import json
import tensorflow as tf
import gpuproof.runtime as rt

said = {}
def keep(name, report):
    said[name] = {"applied": list(map(str, report.applied)), "late": list(map(str, report.not_applied))}

keep("first", rt.setup(threads=2, seed=7))
keep("again", rt.setup(threads=2, seed=7))
first = tf.random.uniform([3]).numpy().tolist()
keep("same", rt.setup(threads=2, seed=7))
said["seeded"] = first == tf.random.uniform([3]).numpy().tolist()
keep("late", rt.setup(threads=1, allocator="async", variables={"TF_ENABLE_ONEDNN_OPTS": "1"}))
said["threads"] = tf.config.threading.get_intra_op_parallelism_threads()
print(json.dumps(said))
""",
        imported="tensorflow",
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "stderr": done.stderr}


def test_tensorflow_takes_threads_and_seed(tensorflow_run: dict[str, Any]) -> None:
    assert tensorflow_run["first"]["late"] == []
    assert {"threads of TensorFlow = 2", "seed of TensorFlow = 7"} <= set(tensorflow_run["first"]["applied"])
    assert tensorflow_run["threads"] == 2
    assert tensorflow_run["seeded"]


def test_setup_is_idempotent_also_after_tensorflow_has_started(tensorflow_run: dict[str, Any]) -> None:
    assert tensorflow_run["again"] == tensorflow_run["first"]
    assert tensorflow_run["same"]["late"] == []


def test_what_came_too_late_names_the_first_use_and_where_to_move_it(tensorflow_run: dict[str, Any]) -> None:
    threads, allocator = tensorflow_run["late"]["late"][1:]
    for late in (threads, allocator):
        assert "TensorFlow had already initialized its devices before setup() in train.py:15" in late
        assert "the first call above is tf.random.uniform() in train.py:12" in late
        assert "right after the import in train.py:3" in late
    assert threads.startswith("threads of TensorFlow = 1")
    assert allocator.startswith("TF_GPU_ALLOCATOR = cuda_malloc_async")


def test_a_variable_for_the_import_names_the_import_that_came_first(tensorflow_run: dict[str, Any]) -> None:
    late = tensorflow_run["late"]["late"][0]
    assert late == (
        "TF_ENABLE_ONEDNN_OPTS = 1: TensorFlow reads it at its import: "
        "move setup() (train.py:15) above that import in train.py:3"
    )


def test_what_was_not_applied_is_on_standard_error_once(tensorflow_run: dict[str, Any]) -> None:
    assert tensorflow_run["stderr"].count("setup() could not apply TF_ENABLE_ONEDNN_OPTS") == 1


PRECISION = """
import keras, gpuproof.runtime as rt
report = rt.setup(mixed_precision={wanted!r})
print(report.precision.dtype, keras.mixed_precision.dtype_policy().name, bool(report.not_applied))
"""


@pytest.mark.parametrize(
    ("gpu", "capability", "wanted", "expected"),
    [
        ("Tesla T4", (7, 5), "auto", "float16 mixed_float16 False"),
        ("Tesla T4", (7, 5), "bfloat16", "float32 float32 True"),
    ],
)
def test_kerass_policy_follows_the_gpu(
    script: Script, gpu_machine: Machine, gpu: str, capability: tuple[int, int], wanted: str, expected: str
) -> None:
    gpu_machine(gpu, capability)
    assert script(PRECISION.format(wanted=wanted)).strip() == expected


TORCH = """
import random, torch, gpuproof.runtime as rt
report = rt.setup(seed=3, threads=1, mixed_precision="auto", allocator={allocator!r})
first = (random.random(), torch.rand(2).tolist())
rt.setup(seed=3)
print(first == (random.random(), torch.rand(2).tolist()), torch.get_num_threads(), report.precision.dtype)
cast, scaler = report.autocast(), report.grad_scaler()
print(cast.fast_dtype, scaler.is_enabled())
"""


def test_torch_on_a_t4_computes_in_float16_with_a_scaler(script: Script, gpu_machine: Machine) -> None:
    gpu_machine("Tesla T4", (7, 5))
    # A build without CUDA switches both off again, and warns: only the requested values count here.
    code = TORCH.format(allocator=None).replace("import random", "import torch.amp, random", 1)
    code = code.replace("report.grad_scaler()", "report.grad_scaler.__self__.precision")
    code = code.replace("scaler.is_enabled()", "scaler.dtype == 'float16'")
    assert script(code).splitlines() == ["True 1 float16", "torch.float16 True"]


def test_torch_on_the_cpu_computes_in_float32_and_scales_nothing(script: Script) -> None:
    lines = script(TORCH.format(allocator="expandable"), imported="torch").splitlines()
    assert lines[0] == "True 1 float32"
    assert lines[1].endswith("False")


def test_torchs_allocator_backend_must_come_before_its_import(script: Script) -> None:
    done = script.done(
        "import torch\nimport gpuproof.runtime as rt\nrt.setup(allocator='async')", imported="torch"
    )
    assert (
        "PYTORCH_ALLOC_CONF = backend:cudaMallocAsync: PyTorch reads it at its import: "
        "move setup() (train.py:3) above 'import torch' in train.py:1"
    ) in done.stderr


def test_a_named_framework_is_imported_after_its_variables_are_set(script: Script) -> None:
    output = script("""
import sys, gpuproof.runtime as rt
report = rt.setup(framework="torch", seed=1, allocator="async")
print("torch" in sys.modules, "tensorflow" in sys.modules, report.not_applied)
""")
    assert output == "True False ()\n"


def test_a_seed_before_any_import_gets_the_advice_to_call_setup_again(script: Script) -> None:
    done = script.done("import gpuproof.runtime as rt\nrt.setup(seed=1)")
    assert "call setup() again after the import" in done.stderr
