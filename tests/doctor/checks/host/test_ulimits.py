"""Limits of a process."""

from pathlib import Path

from gpuproof.doctor.checks.host import ulimits
from support.gpu_states import codes
from support.machine_files import machine_with_files

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            {files}                  {hard}                 files
Max locked memory         {locked}                65536                bytes
"""


def test_limits_are_read_as_the_kernel_prints_them(tmp_path: Path):
    machine = machine_with_files(
        tmp_path, proc__self__limits=LIMITS.format(files=1024, hard="unlimited", locked="unlimited")
    )
    assert ulimits.read(machine) == ulimits.Reading(1024, None, None)


def test_few_open_files_are_a_warning_with_a_command_that_works():
    (finding,) = ulimits.evaluate(ulimits.Reading(256, 4096))
    assert (finding.code, finding.severity, finding.remedy) == ("D671", "warning", "ulimit -n 4096")
    (finding,) = ulimits.evaluate(ulimits.Reading(256, 256))
    assert "limits.conf" in (finding.remedy or "")


def test_the_usual_1024_files_are_a_note_on_a_machine_of_many_gpus_alone():
    assert codes(ulimits.evaluate(ulimits.Reading(1024, None))) == []
    assert codes(ulimits.evaluate(ulimits.Reading(1024, None, gpus=8))) == ["D671 note"]
    assert codes(ulimits.evaluate(ulimits.Reading(None, None, gpus=8))) == []


def test_locked_memory_matters_beside_an_rdma_adapter_alone():
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=65536, rdma=True))) == ["D672 warning"]
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=65536))) == []
    assert codes(ulimits.evaluate(ulimits.Reading(65536, None, locked=None, rdma=True))) == []
