"""CUDA libraries of the frameworks."""

from gpuproof.doctor.checks.libraries import cuda_libraries
from gpuproof.gpu.cuda import Library


def test_a_newer_cudnn_of_the_same_major_version_is_fine() -> None:
    need = cuda_libraries.RequiredLibraries("tensorflow", "2.21.0", "12.5", "9.3", ("libcudnn.so.9",))

    def codes(version: int) -> list[str]:
        found = {"libcudnn.so.9": Library("libcudnn.so.9", "libcudnn.so.9", version)}
        return [item.code for item in cuda_libraries.evaluate(cuda_libraries.Reading((need,), found))]

    assert codes(91002) == []
    assert codes(90300) == []
    assert codes(90200) == ["D305"]
