"""What the agent's monitor shows of the newest sample."""

import os
from typing import Any

from gpuproof.agent.monitor import Monitor, MonitorSettings
from gpuproof.agent.verdict import Expectation
from gpuproof.gpu.nvml import MIB
from support.nvml_stub import Scenario


def test_the_newest_sample_has_the_sensors_of_each_gpu(scenario: Scenario):
    scenario.gpu(0).at(0, util=90, memory_mib=8000, power_w=250.5, temperature_c=71)
    scenario.gpu(1).at(0, 1, temperature_c=-1).now(1)
    shown: list[dict[str, Any]] = []
    monitor = Monitor(MonitorSettings(Expectation(), ""), os.getpid(), {}, shown.append)
    monitor.read_first()
    monitor.stop()
    first, second = shown[0]["gpus"]
    sensors = {
        "index": 0,
        "utilization": 90,
        "memory_used": 8000 * MIB,
        "memory_total": 23028 * MIB,
        "power_w": 250.5,
        "temperature_c": 71,
    }
    assert first == {**first, **sensors}
    assert second["temperature_c"] is None
