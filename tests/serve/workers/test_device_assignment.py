"""Which worker computes on which GPU, and with how many threads."""

from __future__ import annotations

import pytest

from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.device_assignment import assign_devices, visible_gpus


@pytest.mark.parametrize(
    ("settings", "environ", "gpus", "expected"),
    [
        (Settings(), {}, 0, [("cpu", None)]),
        (Settings(workers=3), {}, 0, [("cpu", None)] * 3),
        (Settings(), {}, 2, [("cuda", "0"), ("cuda", "1")]),
        (Settings(workers_per_gpu=2), {}, 2, [("cuda", "0"), ("cuda", "1")] * 2),
        (Settings(workers=3), {}, 2, [("cuda", "0"), ("cuda", "1"), ("cuda", "0")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "3,1"}, 4, [("cuda", "3"), ("cuda", "1")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": ""}, 4, [("cpu", None)]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "-1"}, 4, [("cpu", None)]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "0,9,1"}, 4, [("cuda", "0")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "GPU-1234"}, 1, [("cuda", "GPU-1234")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "0"}, 0, [("cpu", None)]),
    ],
)
def test_predictors_share_the_visible_gpus(
    settings: Settings, environ: dict[str, str], gpus: int, expected: list[tuple[str, str | None]]
) -> None:
    found = assign_devices(settings, environ, gpus, 8)
    assert [
        (assignment.device.kind, assignment.environment.get("CUDA_VISIBLE_DEVICES")) for assignment in found
    ] == expected


def test_predictors_share_the_cores() -> None:
    found = assign_devices(Settings(workers=4), {"MKL_NUM_THREADS": "7"}, 0, 8)
    assert found[0].environment["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in found[0].environment
    assert assign_devices(Settings(workers=4, threads=5), {}, 0, 8)[0].environment["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in assign_devices(Settings(workers=4, threads=5), {}, 0, 8)[0].environment


@pytest.mark.parametrize(
    ("tunables", "expected"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", None),
    ],
)
def test_predictors_on_a_cpu_request_huge_pages_unless_configured(
    tunables: str | None, expected: str | None
) -> None:
    environ = {} if tunables is None else {"GLIBC_TUNABLES": tunables}
    assert assign_devices(Settings(), environ, 0, 8)[0].environment.get("GLIBC_TUNABLES") == expected
    assert "GLIBC_TUNABLES" not in assign_devices(Settings(), environ, 1, 8)[0].environment


def test_a_negative_number_ends_the_list_of_gpus_as_it_does_for_cuda() -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, 2) == ["1"]


def test_gpus_are_ordered_by_pci_bus_unless_visible_devices_are_set() -> None:
    for placed in assign_devices(Settings(), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 2, 8):
        assert placed.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    for placed in assign_devices(Settings(), {"CUDA_VISIBLE_DEVICES": "1"}, 2, 8):
        assert "CUDA_DEVICE_ORDER" not in placed.environment
