"""Results of computations."""

from gpuproof.doctor.checks.compute import framework_ops
from gpuproof.doctor.checks.compute.reading import ComputeReading, Operation


def test_the_result_must_be_on_the_requested_gpu() -> None:
    operations = (
        Operation(1, "matmul", "float32", 1e-4, "cuda:0", 0.0),
        Operation(1, "convolution", "float32", 1e-4, "cuda:1", 0.0),
    )
    findings = list(framework_ops.evaluate(ComputeReading("PyTorch 2.11.0", operations)))
    assert [(finding.code, str(finding.location)) for finding in findings] == [("D504", "GPU 1")]
