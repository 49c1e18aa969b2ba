"""The driver as the system's files show it."""

from pathlib import Path

import pytest

from gpuproof.gpu.driver import PciGpu, read_driver_files


def lay(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("banner", "version", "flavour"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
            "535.104.05",
            "proprietary",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs@U22)",
            "580.95.05",
            "open",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  595.71.05  Release Build",
            "595.71.05",
            "open",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80  Sun", "450.80", "proprietary"),
        ("something else entirely", None, None),
        ("", None, None),
    ],
)
def test_the_banner_contains_version_and_flavour(
    banner: str, version: str | None, flavour: str | None, tmp_path: Path
) -> None:
    files = read_driver_files(lay(tmp_path, proc__driver__nvidia__version=banner + "\nGCC version: 11.5.0\n"))
    assert (files.version, files.flavour) == (version, flavour)


def test_without_a_banner_the_version_comes_from_sys_module(tmp_path: Path) -> None:
    files = read_driver_files(lay(tmp_path, sys__module__nvidia__version="580.95.05\n"))
    assert (files.version, files.loaded) == ("580.95.05", True)


def test_only_gpus_of_nvidia_count(tmp_path: Path) -> None:
    devices = tmp_path / "sys/bus/pci/devices"
    for address, vendor, kind in (
        ("0000:00:02.0", "0x8086", "0x030000"),
        ("0000:00:1d.0", "0x10de", "0x068000"),
        ("0000:00:1e.0", "0x10de", "0x030200"),
        ("0000:00:1e.1", "0x10de", "0x040300"),
    ):
        (devices / address).mkdir(parents=True)
        (devices / address / "vendor").write_text(vendor)
        (devices / address / "class").write_text(kind)
        (devices / address / "device").write_text("0x2237\n")
    assert read_driver_files(tmp_path).pci == (PciGpu("0000:00:1e.0", "0x2237", None),)


def test_a_bus_that_cannot_be_looked_at_is_not_an_empty_one(tmp_path: Path) -> None:
    assert read_driver_files(tmp_path).pci is None
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert read_driver_files(tmp_path).pci == ()


def test_an_unknown_module_state_stays_unknown(tmp_path: Path) -> None:
    assert read_driver_files(tmp_path).loaded is None
    assert read_driver_files(lay(tmp_path, proc__modules="ena 1 0 - Live 0x0\n")).loaded is False


def test_device_files_are_counted_by_their_numbers(tmp_path: Path) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia-uvm-tools", "null"):
        (dev / name).touch()
    files = read_driver_files(tmp_path)
    assert files.device_files == (2, 10)
    assert (files.control, files.uvm) == (True, True)


@pytest.mark.parametrize(
    "place", ["extra/nvidia.ko.xz", "updates/dkms/nvidia.ko", "kernel/drivers/video/nvidia/nvidia.ko.zst"]
)
def test_a_module_is_found_where_packages_put_it(place: str, tmp_path: Path) -> None:
    module = tmp_path / "lib/modules/6.1.0" / place
    module.parent.mkdir(parents=True)
    module.touch()
    (tmp_path / "lib/modules/6.2.0/extra").mkdir(parents=True)
    assert read_driver_files(tmp_path).built_for == ("6.1.0",)


def test_library_versions_are_ordered_as_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    for version in ("1", "580.95.05", "1000.1.2", "535.104.05"):
        (folder / f"libnvidia-ml.so.{version}").touch()
    assert read_driver_files(tmp_path).libraries == ("535.104.05", "580.95.05", "1000.1.2")


@pytest.mark.parametrize(
    ("name", "content"),
    [("run__.containerenv", ""), ("proc__1__cgroup", "0::/kubepods/besteffort/pod1"), (".dockerenv", "")],
)
def test_a_container_is_known_by_its_marks(name: str, content: str, tmp_path: Path) -> None:
    assert not read_driver_files(tmp_path).container
    assert read_driver_files(lay(tmp_path, **{name: content})).container
