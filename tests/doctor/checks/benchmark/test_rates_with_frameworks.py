"""The probe's arithmetic with the real frameworks, on the CPU in place of a GPU and with small matrices."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gpuproof.gpu.probes

SOURCE = Path(gpuproof.gpu.probes.__file__).with_name("measure.py")
WHAT = {"memory_gb_s", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops"}
# As the doctor starts it: from a text, which AutoGraph cannot look into.
START = """
import sys
probe = {"__name__": "probe"}
exec(compile(open(sys.argv[1]).read(), "probe", "exec"), probe)
probe.update(SMALL_SIDE=64, LARGE_SIDE=64, SECONDS=0.001)
"""
TORCH = """
import torch
gpu = torch.cuda
gpu.set_device = gpu.synchronize = lambda index: None
gpu.get_device_capability, gpu.mem_get_info, gpu.empty_cache = lambda i: (8, 0), lambda i: (2 << 30, 0), lambda: None
for name in ("ones", "empty", "randn"):
    make = getattr(torch, name)
    setattr(torch, name, lambda *size, make=make, device=None, pin_memory=None, **rest: make(*size, **rest))
probe["GIB"] = 1 << 24
probe["with_torch"](torch, 0)
"""
TENSORFLOW = """
import tensorflow as tf
list_devices = tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind: list_devices("CPU")
tf.config.experimental.get_device_details = lambda gpu: {"compute_capability": (8, 0)}
probe["with_tensorflow"](tf, 0)
"""


@pytest.mark.journey
@pytest.mark.parametrize(("framework", "script"), [("torch", TORCH), ("tensorflow", TENSORFLOW)])
def test_every_rate_is_measured_and_nothing_is_complained_of(framework: str, script: str):
    pytest.importorskip(framework)
    command = [sys.executable, "-c", START + script, str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    records = [
        json.loads(line.split("gpuproof ", 1)[1]) for line in done.stdout.splitlines() if "gpuproof " in line
    ]
    rates = {record["what"]: record["value"] for record in records if record["kind"] == "rate"}
    assert rates.keys() >= WHAT
    assert all(value > 0 for value in rates.values())
    assert "AutoGraph" not in done.stderr
