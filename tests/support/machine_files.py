"""A machine made of a few files below a temporary root."""

from pathlib import Path

from gpuproof.doctor.machine import Machine


def machine_with_files(root: Path, **files: str) -> Machine:
    """A machine with files whose names have `__` for `/`."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    machine = Machine(root=root, environment={"HOME": "/home/ann"})
    vars(machine)["gpus"] = None
    return machine
