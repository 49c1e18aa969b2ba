"""Memory pressure."""

from pathlib import Path

from gpuproof.doctor.checks.host import memory_pressure
from support.gpu_states import GIB, codes
from support.machine_files import machine_with_files

MIB = 1 << 20


def test_a_machine_that_thrashes_is_a_warning_and_a_calm_one_is_not(tmp_path: Path):
    busy = machine_with_files(
        tmp_path,
        proc__pressure__memory="some avg10=90.00 avg60=1 avg300=1 total=1\nfull avg10=44.10 avg60=1 avg300=1 total=1\n",
        proc__meminfo="MemAvailable: 1024 kB\nSwapTotal: 4194304 kB\nSwapFree: 2097152 kB\n",
    )
    reading = memory_pressure.read(busy)
    assert reading == memory_pressure.Reading(44.1, MIB, 2 * GIB)
    assert codes(memory_pressure.evaluate(reading)) == ["D678 warning"]
    assert codes(memory_pressure.evaluate(memory_pressure.Reading(0.5))) == []


def test_a_kernel_without_pressure_data_has_no_finding(tmp_path: Path):
    assert memory_pressure.read(machine_with_files(tmp_path)) is None
