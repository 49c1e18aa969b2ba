"""CUDA_VISIBLE_DEVICES by CUDA's own rules."""

import pytest

from gpuproof.doctor.checks.gpu_state import container_gpus
from gpuproof.doctor.checks.gpu_state.cuda_visible_devices import (
    Reading,
    evaluate,
    parse_visible_devices,
    read,
)
from gpuproof.doctor.machine import Machine
from support.gpu_states import codes

UUIDS = ("GPU-aa11", "GPU-ab22", "GPU-cc33", None)


@pytest.mark.parametrize(
    ("value", "chosen", "stopped_at"),
    [
        ("0,1", (0, 1), None),
        (" 2 , 0 ", (2, 0), None),
        ("GPU-aa11", (0,), None),
        ("GPU-c", (2,), None),
        ("gpu-c", (), "gpu-c"),
        ("GPU-a", (), "GPU-a"),  # means two
        ("0,9,1", (0,), "9"),
        ("-1,0", (), "-1"),
        ("", (), ""),
        ("all", (), "all"),
        ("0 1", (), "0 1"),
        ("MIG-1234/1/0", (-1,), None),
    ],
)
def test_cuda_reads_the_list_up_to_the_first_entry_that_names_no_gpu(value, chosen, stopped_at):
    visible = parse_visible_devices(value, UUIDS)
    assert (visible.indexes, visible.stopped_at) == (chosen, stopped_at)


def test_an_entry_that_comes_twice_leaves_no_gpu():
    assert parse_visible_devices("0,GPU-aa11", UUIDS).duplicate == "GPU-aa11"
    assert parse_visible_devices("0,0", UUIDS).indexes == ()


def judge(value: str, **fields):
    return list(evaluate(Reading(value, UUIDS, **fields)))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "set and empty"),
        ("-1", "-1 means no GPU"),
        ("0,0", "listed twice"),
        ("none", "`none` matches no GPU"),
        ("GPU-zz", "`GPU-zz` matches no GPU"),
    ],
)
def test_hiding_every_gpu_is_an_error_that_names_the_variable(value: str, why: str):
    (finding,) = judge(value)
    assert (finding.code, finding.severity) == ("D640", "error")
    assert why in finding.message
    assert finding.remedy == "unset CUDA_VISIBLE_DEVICES"


def test_a_list_cut_short_by_an_invalid_entry_is_an_error_with_the_gpus_left():
    (finding,) = judge("0,1,7")
    assert finding.code == "D642"
    assert "2 of 4" in finding.message


def test_a_choice_of_some_gpus_is_a_note_and_of_all_is_nothing():
    assert codes(judge("1,2")) == ["D641 note"]
    assert judge("3,2,1,0") == []


def test_cards_of_several_models_bring_the_numbering_into_it():
    (finding,) = judge("0", same_model=False)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in finding.message
    (finding,) = judge("0", same_model=False, order="PCI_BUS_ID")
    assert "CUDA_DEVICE_ORDER" not in finding.message


def test_a_mig_instance_is_a_choice_and_no_finding():
    assert judge("MIG-1234/1/0") == []


def test_without_the_variable_there_is_nothing_to_look_at():
    assert read(Machine(environment={})) is None


def container(devices: str | None, files: bool, capabilities: str | None = None):
    return codes(container_gpus.evaluate(container_gpus.Reading(devices, capabilities, files)))


@pytest.mark.parametrize("devices", ["void", "none", ""])
def test_a_container_that_shuts_gpus_out_is_an_error(devices: str):
    assert container(devices, files=False) == ["D643 error"]


def test_a_container_with_gpus_or_without_the_variable_has_no_finding():
    assert container("all", files=True, capabilities="compute,utility") == []
    assert container("all", files=True, capabilities="all") == []
    assert container("void", files=True) == []  # CDI brings GPUs so
    assert container(None, files=False) == []


def test_a_container_without_the_compute_capability_is_an_error():
    assert container("all", files=True, capabilities="utility") == ["D644 error"]
    assert container("all", files=True, capabilities="compute,video") == ["D644 warning"]
