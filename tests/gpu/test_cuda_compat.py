"""Which driver library a script loads: the host's, or the image's newer one."""

import os
from pathlib import Path

import pytest

from gpuproof.gpu.cuda_compat import (
    FOLDER,
    choose_library,
    compat_packages,
    extended_drivers,
    read_driver_library,
    with_folder,
)
from gpuproof.util.versions import version_key
from support.driver_tree import driver_tree


@pytest.mark.parametrize(
    ("driver", "compat"),
    [("535.183.01", "580.95.05"), ("550.163.01", "610.43.02"), ("470.256.02", "550.54.15")],
)
def test_the_newer_library_of_the_image_takes_the_place_of_the_hosts(
    driver: str, compat: str, tmp_path: Path
) -> None:
    found = read_driver_library(driver_tree(tmp_path, driver, compat))
    assert found is not None
    assert (found.driver, found.compat, found.folder) == (driver, compat, FOLDER)
    assert driver in (found.note or "")
    assert compat in (found.note or "")


@pytest.mark.parametrize(
    ("driver", "compat"),
    [
        pytest.param("595.71.05", "580.95.05", id="the host's driver is newer"),
        pytest.param("580.95.05", "580.95.05", id="the same"),
        pytest.param("580.65.06", "580.95.05", id="an earlier release of the same branch"),
    ],
)
def test_a_driver_that_is_new_enough_stays(driver: str, compat: str, tmp_path: Path) -> None:
    found = read_driver_library(driver_tree(tmp_path, driver, compat))
    assert found is not None
    assert (found.compat, found.folder, found.note) == (None, None, None)


@pytest.mark.parametrize(
    ("driver", "compat", "gpu", "reason"),
    [
        pytest.param("470.256.02", "580.95.05", "Tesla T4", "branch 580 on drivers of branch 470", id="pair"),
        pytest.param("470.256.02", "575.57.08", "NVIDIA A10G", "branch 575", id="CUDA 12.9 on 470"),
        pytest.param("565.57.01", "595.71.05", "NVIDIA A10G", "branch 595", id="a feature branch"),
        pytest.param("535.183.01", "700.10.01", "NVIDIA L4", "branch 700", id="a package not in the table"),
        pytest.param("535.183.01", "580.95.05", "NVIDIA GeForce RTX 4090", "data center", id="GeForce"),
        pytest.param("535.183.01", "595.71.05", "Tesla V100-SXM2-16GB", "no longer supports", id="V100"),
    ],
)
def test_an_unsupported_pair_leaves_the_hosts_library_and_says_why(
    driver: str, compat: str, gpu: str, reason: str, tmp_path: Path
) -> None:
    found = read_driver_library(driver_tree(tmp_path, driver, compat, gpu))
    assert found is not None
    assert (found.compat, found.folder) == (None, None)
    assert reason in (found.note or "")


def test_gpus_whose_names_are_unknown_are_those_of_a_data_center() -> None:
    assert choose_library("535.183.01", "580.95.05", ()).folder == FOLDER


def test_an_image_without_the_library_leaves_the_hosts(tmp_path: Path) -> None:
    found = read_driver_library(driver_tree(tmp_path, "535.183.01"))
    assert found is not None
    assert (found.driver, found.folder, found.note) == ("535.183.01", None, None)


def test_a_machine_without_a_driver_has_no_library(tmp_path: Path) -> None:
    assert read_driver_library(driver_tree(tmp_path, None, "580.95.05")) is None


def test_a_broken_link_is_no_library(tmp_path: Path) -> None:
    driver_tree(tmp_path, "535.183.01", "580.95.05")
    (tmp_path / "usr/local/cuda/compat/libcuda.so.580.95.05").unlink()
    found = read_driver_library(tmp_path)
    assert found is not None
    assert found.folder is None


def test_a_copied_library_has_the_version_of_the_file_beside_it(tmp_path: Path) -> None:
    folder = driver_tree(tmp_path, "535.183.01", "580.95.05") / "usr/local/cuda/compat"
    (folder / "libcuda.so.1").unlink()
    (folder / "libcuda.so.1").write_bytes(b"")
    found = read_driver_library(tmp_path)
    assert found is not None
    assert found.compat == "580.95.05"


def test_the_folder_comes_first_once_and_other_folders_stay() -> None:
    before = {"LD_LIBRARY_PATH": os.pathsep.join(("/usr/local/cuda/lib64", FOLDER, "/own")), "HOME": "/root"}
    after = with_folder(before, FOLDER)
    assert after == {"LD_LIBRARY_PATH": f"{FOLDER}:/usr/local/cuda/lib64:/own", "HOME": "/root"}
    assert with_folder({}, FOLDER) == {"LD_LIBRARY_PATH": FOLDER}
    assert with_folder(before, None) == before


def test_a_package_extends_only_older_branches() -> None:
    for package in compat_packages():
        assert all(driver < package.branch for driver in package.drivers), package
        assert list(package.drivers) == sorted(set(package.drivers)), package
    branches = [package.branch for package in compat_packages()]
    assert branches == sorted(set(branches), reverse=True)


def test_the_branches_are_those_of_the_catalogues_toolkits() -> None:
    from gpuproof.catalogue import Catalogue

    catalogue = Catalogue.load()
    for package in compat_packages():
        floor = catalogue.driver_floor(package.cuda)
        assert floor is not None
        assert floor.toolkit is not None
        # The release notes name 616 for the preview of 13.4, NVIDIA's guide 615.
        assert version_key(floor.toolkit)[0] in (package.branch, package.branch + 1), package


def test_cuda_versions_have_the_drivers_of_their_package() -> None:
    assert 535 in extended_drivers("13.3")
    assert 470 not in extended_drivers("13.0")
    assert 470 in extended_drivers("12.4.1")
    assert extended_drivers("10.2") == ()
