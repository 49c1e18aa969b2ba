"""CPU builds, recognized by name."""

import pytest

from gpuproof.doctor.checks.frameworks.builds import is_cpu_build
from gpuproof.gpu.framework_probe import Packages


@pytest.mark.parametrize(
    ("name", "versions", "cpu"),
    [
        ("torch", {"torch": "2.6.0+cpu"}, True),
        ("torch", {"torch": "2.6.0+cu124"}, False),
        ("tensorflow", {"tensorflow-cpu": "2.21.0"}, True),
        ("tensorflow", {"tensorflow-cpu": "2.21.0", "tensorflow": "2.21.0"}, None),
        ("torch", {"torch": "2.99.0"}, None),
    ],
)
def test_the_name_of_a_build_shows_whether_it_is_for_the_cpu(
    name: str, versions: dict[str, str], cpu: bool | None
) -> None:
    assert is_cpu_build(name, Packages(arch="x86_64", versions=versions), None) is cpu
