"""PCIe links with fewer lanes."""

from gpuproof.gpu.checks import pcie_link
from support.gpu_states import codes, gpu, gpus


def test_a_link_of_half_the_lanes_is_how_ec2_wires_it_unless_a_neighbour_has_more():
    half = {"pcie_width": 8, "pcie_width_max": 16}
    assert codes(pcie_link.evaluate(gpus(gpu(0, **half), gpu(1, **half)))) == []
    found = list(pcie_link.evaluate(gpus(gpu(0, **half), gpu(1, pcie_width=16, pcie_width_max=16))))
    assert [str(finding.location) for finding in found] == ["GPU 0 (NVIDIA A10G)"]


def test_fewer_than_eight_lanes_are_a_warning_on_a_gpu_alone():
    (finding,) = pcie_link.evaluate(gpus(gpu(pcie_width=4, pcie_width_max=16)))
    assert "x4" in finding.message
    assert codes(pcie_link.evaluate(gpus(gpu(pcie_width=4, pcie_width_max=4)))) == []


def test_an_idle_link_s_low_generation_has_no_finding():
    idle = gpu(pcie_width=16, pcie_width_max=16, pcie_generation=1, pcie_generation_max=4)
    assert codes(pcie_link.evaluate(gpus(idle))) == []
