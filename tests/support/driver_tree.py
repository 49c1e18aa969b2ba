"""A file system with an NVIDIA driver and an image's forward compatibility library, as files."""

from pathlib import Path

BANNER = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  10.2.1\n"
)


def driver_tree(root: Path, driver: str | None, compat: str | None = None, gpu: str = "Tesla T4") -> Path:
    """Write what `read_driver_library` reads: the module's banner, its GPU, and the image's library with its link."""
    if driver is not None:
        folder = root / "proc/driver/nvidia"
        (folder / "gpus/0000:00:1e.0").mkdir(parents=True)
        (folder / "version").write_text(BANNER.format(driver))
        (folder / "gpus/0000:00:1e.0/information").write_text(f"Model: \t\t {gpu}\nIRQ:   \t\t 12\n")
    if compat is not None:
        libraries = root / "usr/local/cuda/compat"
        libraries.mkdir(parents=True)
        (libraries / f"libcuda.so.{compat}").write_bytes(b"")
        (libraries / f"libnvidia-ptxjitcompiler.so.{compat}").write_bytes(b"")
        (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{compat}")
    return root
