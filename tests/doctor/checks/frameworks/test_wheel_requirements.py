"""Reading what wheels ask for."""

import pytest

from gpuproof.doctor.checks.frameworks.wheel_requirements import Requirement, parse_requirements


def one(line: str, arch: str = "x86_64") -> Requirement | None:
    return next(iter(parse_requirements([line], arch)), None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux"', "nvidia-cudnn-cu12==9.1.0.70"),
        ("nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == 'Linux'", "nvidia-cudnn-cu12==8.9.2.26"),
        ('nvidia_cublas_cu12<13.0,>=12.5.3.2; extra == "and-cuda"', "nvidia-cublas-cu12<13.0,>=12.5.3.2"),
        ('cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"', "cuda-toolkit==13.0.2"),
        ("nvidia-nccl-cu13", "nvidia-nccl-cu13"),
    ],
)
def test_lines_of_metadata(line: str, words: str) -> None:
    assert str(one(line)) == words


def test_what_is_for_another_system_is_left_out() -> None:
    line = 'nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux" and platform_machine == "x86_64"'
    assert one(line, "aarch64") is None
    assert one(line) is not None
    assert one('nvidia-cudnn-cu12==9.1; sys_platform == "win32"') is None


def test_an_extra_is_marked() -> None:
    needed, extra = one("nvidia-nccl-cu12==2.1"), one('nvidia-nccl-cu12==2.1; extra == "and-cuda"')
    assert (needed and needed.extra, extra and extra.extra) == (False, True)


def test_illegible_lines_are_left_out() -> None:
    assert parse_requirements(["", "@@@", "name @ https://example.com/x.whl"], "x86_64") == []


@pytest.mark.parametrize(
    ("pins", "version", "takes"),
    [
        ("<13.0,>=12.5.3.2", "12.9.0.13", True),
        ("<13.0,>=12.5.3.2", "12.5.3.1", False),
        ("<13.0,>=12.5.3.2", "13.0", False),
        ("==9.1.0.70", "9.1.0.70", True),
        ("==9.1.0.70", "9.10.0.70", False),
        ("==9.*", "9.10.2", True),
        ("!=9.*", "9.10.2", False),
        ("==12.8", "12.8.0", True),
    ],
)
def test_versions_are_compared_as_numbers(pins: str, version: str, takes: bool) -> None:
    found = one(f"nvidia-x{pins}")
    assert found is not None
    assert found.accepts(version) is takes
