"""NVLink fabric and Fabric Manager."""

from gpuproof.gpu.checks.fabric_manager import Reading as Fabric
from gpuproof.gpu.checks.fabric_manager import evaluate as judge_fabric
from support.gpu_states import codes, text


def fabric(*states: tuple[str, int], switches: int = 6, manager: bool | None = True) -> Fabric:
    named = tuple((f"GPU {index}", state, status) for index, (state, status) in enumerate(states))
    return Fabric(switches, manager, named, "580.95.05")


def test_nvswitches_without_fabric_manager_are_an_error():
    (finding,) = judge_fabric(fabric(("not started", 0), ("not started", 0), manager=False))
    assert finding.code == "D625"
    assert "580.95.05" in text(finding)


def test_in_a_container_the_state_of_fabric_manager_is_unknown():
    assert codes(judge_fabric(fabric(("completed", 0), ("completed", 0), manager=None))) == []


def test_gpus_that_have_not_joined_the_fabric_are_an_error():
    (finding,) = judge_fabric(fabric(("completed", 0), ("in progress", 0), manager=None))
    assert finding.code == "D626"
    assert "GPU 1 is not yet registered" in finding.message


def test_gpus_that_could_not_join_the_fabric_are_an_error_with_nvml_s_code():
    (finding,) = judge_fabric(fabric(("completed", 999), ("completed", 0)))
    assert "GPU 0 failed to register" in finding.message
    assert "NVML code 999" in text(finding)


def test_one_gpu_alone_needs_no_fabric():
    assert codes(judge_fabric(fabric(("not started", 0), switches=0, manager=None))) == []
