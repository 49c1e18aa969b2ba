"""Machines of the scenarios, for tests that look at more than their findings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.doctor.machine import Machine
from support.doctor_machines import SCENARIOS, build_machine, read_scenario


@pytest.fixture(scope="session")
def stub_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where stub libraries are built, once."""
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture
def scenario_machine(tmp_path: Path, stub_libraries: Path) -> Callable[[str], Machine]:
    """Builds the machine of a scenario by its name."""

    def build(name: str) -> Machine:
        return build_machine(read_scenario(SCENARIOS / name), tmp_path / name, stub_libraries)

    return build
