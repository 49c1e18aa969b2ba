"""What the `docker` program of a simulated instance knows: its images, and how the engine is set up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpuproof_emulator.execution.image_interpreter import select_interpreter

FILE = "docker.json"
"""The settings, in the folder that an instance shares with the simulation."""


@dataclass(frozen=True)
class SimulatedImage:
    """An image that can be pulled.

    Args:
        python: the interpreter that is its `python3`; empty for an image without Python.
        size: bytes of its layers, which a pull writes.
        architecture: as Docker names it; empty for that of this machine.
        error: what `docker pull` reports instead, such as a denial.
    """

    python: str
    size: int = 0
    architecture: str = ""
    error: str = ""


@dataclass(frozen=True)
class DockerSettings:
    """How Docker is set up.

    Args:
        images: by name.
        python: the interpreter of all other images; empty if there are none.
        pythons: interpreters of other images by the framework in their names.
        has_nvidia_runtime: whether the NVIDIA Container Toolkit is installed.
        environment: variables that all images set.
    """

    images: Mapping[str, SimulatedImage] = field(default_factory=dict)
    python: str = ""
    pythons: Mapping[str, str] = field(default_factory=dict)
    has_nvidia_runtime: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def image(self, name: str) -> SimulatedImage | None:
        """The image of a name; None if it does not exist."""
        if name in self.images:
            return self.images[name]
        return SimulatedImage(select_interpreter(self.pythons, self.python, name)) if self.python else None

    def to_json(self) -> str:
        """The settings as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, path: Path) -> DockerSettings:
        """Read what `to_json` returned."""
        values = json.loads(path.read_text())
        images = {name: SimulatedImage(**one) for name, one in values.pop("images").items()}
        return cls(images=images, **values)
