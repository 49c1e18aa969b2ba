"""The root first, and what followed from it under it."""

from __future__ import annotations

from gpuproof.explain import Context, Explanation, explain_lines

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
SCRIPT = "ExecuteUserScriptError:"
ALGORITHM = "Failed. Reason: AlgorithmError: framework error, exit code: 1"


def shape(found: list[Explanation]) -> list[tuple[str, list[str]]]:
    return [(match.code, [other.code for other in match.consequences]) for match in found]


def test_torchrun_and_sagemaker_only_forward_the_error_of_a_rank(context: Context) -> None:
    found = explain_lines([OOM, CHILD, SCRIPT, ALGORITHM], context)
    assert shape(found) == [
        (
            "torch-out-of-memory",
            ["torch-child-failed", "sagemaker-script-failed", "sagemaker-algorithm-error"],
        )
    ]


def test_a_cause_that_is_printed_last_still_comes_first(context: Context) -> None:
    found = explain_lines([SCRIPT, 'ErrorMessage "' + OOM, CHILD], context)
    assert found[0].code == "torch-out-of-memory"
    assert len(found) == 1


def test_without_a_cause_the_wrapper_is_what_is_known(context: Context) -> None:
    assert shape(explain_lines([CHILD, SCRIPT], context)) == [
        ("torch-child-failed", []),
        ("sagemaker-script-failed", []),
    ]


def test_a_timeout_on_one_rank_follows_from_the_death_of_another(context: Context) -> None:
    timeout = (
        "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4812, OpType=ALLREDUCE, NumelIn=1,"
        " NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )
    assert shape(explain_lines([timeout, OOM], context)) == [("torch-out-of-memory", ["nccl-timeout"])]


def test_a_gpu_that_torch_does_not_see_follows_from_the_old_driver(context: Context) -> None:
    found = explain_lines(
        [
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040).",
            "RuntimeError: No CUDA GPUs are available",
        ],
        context,
    )
    assert shape(found) == [("torch-driver-too-old", ["torch-no-gpus-available"])]


def test_what_follows_a_failed_assertion_of_a_kernel_is_reported_as_the_assertion(context: Context) -> None:
    assertion = (
        "/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], "
        "thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed."
    )
    cublas = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    cudnn = "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"
    found = explain_lines([assertion, cublas, cudnn], context)
    assert shape(found) == [("cuda-device-assert", ["cublas-not-initialized", "cudnn-not-initialized"])]
    assert "t >= 0 && t < n_classes" in found[0].cause


def test_a_missing_module_explains_why_there_is_no_model_fn(context: Context) -> None:
    found = explain_lines(
        [
            "Please provide a model_fn implementation.",
            "ModuleNotFoundError: No module named 'timm'",
            "The primary container for production variant AllTraffic did not pass the ping health check.",
        ],
        context,
    )
    assert shape(found) == [("module-not-found", ["serving-model-fn-missing", "sagemaker-ping-failed"])]


def test_a_warning_does_not_explain_an_error_away(context: Context) -> None:
    found = explain_lines(["Server.SpotInstanceTermination: Instance initiated", ALGORITHM], context)
    assert shape(found) == [("sagemaker-algorithm-error", []), ("spot-interrupted", [])]


def test_two_causes_stand_in_the_order_of_the_log(context: Context) -> None:
    found = explain_lines(["KeyError: 'SM_CHANNEL_TRAIN'", OOM], context)
    assert [match.code for match in found] == ["sm-variable-missing", "torch-out-of-memory"]


def test_two_hundred_of_them_are_one_with_a_count(context: Context) -> None:
    (found,) = explain_lines([OOM] * 200, context)
    assert (found.count, found.line, found.last_line) == (200, 1, 200)


def test_nothing_is_reported_about_an_unknown_log(context: Context) -> None:
    assert explain_lines(["Traceback (most recent call last):", "mylib.Broken: no flux"], context) == []
