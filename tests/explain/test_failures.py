"""Warnings of NCCL, libfabric, shells and SageMaker's toolkit: a cause where the job failed because of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuproof.explain import Context, Explanation, explain_lines, make_report
from gpuproof.explain.scan import scan_lines

PROXY = "algo-1:57:89 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2"
REFUSED = (
    "algo-1:57:89 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> failed : "
    "Connection refused"
)
SYMBOL = "algo-1:46:58 [0] configure_nvls_option:287 NCCL WARN NET/OFI Could not find ncclGetVersion symbol"
NCCL_ERROR = (
    "Traceback (most recent call last):",
    '  File "train.py", line 14, in <module>',
    "    dist.all_reduce(x)",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error, NCCL version 2.27.5",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
)
OWN_ERROR = (
    "Traceback (most recent call last):",
    '  File "train.py", line 40, in <module>',
    "    assert batch",
    "mydata.EmptyBatch: no rows",
)
MISSING = "/opt/ml/code/train.sh: line 4: torchrun: command not found"


def shape(found: list[Explanation]) -> list[tuple[str, str, list[str]]]:
    return [
        (entry.code, entry.severity.value, [other.code for other in entry.consequences]) for entry in found
    ]


def test_the_warning_before_the_exception_is_the_cause_and_is_quoted(context: Context) -> None:
    found = explain_lines([PROXY, *NCCL_ERROR], context)
    assert shape(found) == [("nccl-warning", "error", ["nccl-system-error"])]
    assert "Failed to execute operation Connect" in found[0].cause


def test_of_several_warnings_the_last_before_the_exception_counts(context: Context) -> None:
    later = PROXY.replace("rank 0, retcode 2", "rank 7, retcode 6")
    (found,) = explain_lines([SYMBOL, PROXY, *NCCL_ERROR, later], context)
    assert (found.line, found.count) == (2, 3)
    assert "rank 0, retcode 2" in found.cause


def test_a_warning_with_a_meaning_comes_before_one_without(context: Context) -> None:
    (found,) = explain_lines([REFUSED, PROXY, *NCCL_ERROR], context)
    assert found.code == "nccl-connect-failed"
    assert "172.17.0.1" in found.cause
    assert "Connection refused" in found.cause
    assert {other.code for other in found.consequences} == {"nccl-warning", "nccl-system-error"}


def test_a_warning_without_a_failure_is_no_error_and_not_ok_either(context: Context) -> None:
    report = make_report([scan_lines([SYMBOL, "Epoch 1 loss 0.3"])], context)
    assert shape(list(report.explanations)) == [("nccl-warning", "warning", [])]
    assert not report.failed


def test_a_warning_does_not_explain_an_exception_of_another_kind(context: Context) -> None:
    report = make_report([scan_lines([PROXY, *OWN_ERROR])], context)
    assert shape(list(report.explanations)) == [("nccl-warning", "warning", [])]
    assert report.cause_unknown


def test_full_memory_stays_the_cause_although_nccl_warned_before(context: Context) -> None:
    memory = (*OWN_ERROR[:3], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    found = explain_lines([REFUSED, *memory], context)
    assert shape(found)[0][:2] == ("torch-out-of-memory", "error")
    assert [entry.severity.value for entry in found[1:]] == ["warning"]


def test_a_killed_rank_explains_what_nccl_says_on_the_others(context: Context) -> None:
    found = explain_lines([PROXY, "Container exited with code 137"], context)
    assert found[0].code == "killed-137"
    assert "nccl-warning" in [other.code for other in found[0].consequences]


def test_a_handled_exception_before_the_warning_does_not_hide_it(context: Context) -> None:
    found = explain_lines([*OWN_ERROR, "retrying", PROXY, *NCCL_ERROR], context)
    assert shape(found) == [("nccl-warning", "error", ["nccl-system-error"])]


def test_a_missing_command_is_the_cause_where_the_script_ended_with_127(context: Context) -> None:
    found = explain_lines([MISSING, "Process exited with code 127"], context)
    assert shape(found) == [("shell-command-not-found", "error", ["exit-127"])]
    assert "torchrun is the command of torch" in (found[0].here or "")


def test_a_missing_command_after_which_the_script_went_on_is_a_warning(context: Context) -> None:
    found = explain_lines(["train.sh: line 2: nvidia-smi: command not found", "Epoch 1 loss 0.3"], context)
    assert shape(found) == [("shell-command-not-found", "warning", [])]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("bash: accelerate: command not found", "accelerate"),
        ("/bin/sh: 1: torchrun: not found", "torchrun"),
        ("/bin/sh: torchrun: not found", "torchrun"),
        ("sh: line 1: deepspeed: command not found", "deepspeed"),
        ("-bash: mpirun: command not found", "mpirun"),
        ("zsh: command not found: accelerate", "accelerate"),
        ("[1,mpirank:0,algo-1]<stderr>:./run.sh: line 9: ninja: command not found", "ninja"),
    ],
)
def test_every_shell_says_it_differently(context: Context, line: str, command: str) -> None:
    (found,) = explain_lines([line, "exit code: 127"], context)
    assert found.code == "shell-command-not-found"
    assert f"named {command}:" in found.cause


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: package torchrun: not found in the index",
        "checkpoint 12: not found, starting from scratch",
        "INFO: model card: not found",
        "404 Client Error: not found",
    ],
)
def test_other_things_that_are_not_found_are_not_commands(context: Context, line: str) -> None:
    assert explain_lines([line], context) == []


@pytest.mark.parametrize(
    "line",
    [
        "/opt/ml/code/a.py: line 2: import: command not found",
        "./a.py: 3: from: not found",
        "import-im6.q16: unable to open X server `' @ error/import.c/ImportImageCommand/359.",
        "from: can't read /var/mail/torch",
        "a.py: line 9: syntax error near unexpected token `('",
    ],
)
def test_a_python_file_that_a_shell_ran_is_recognized(context: Context, line: str) -> None:
    assert explain_lines([line], context)[0].code == "shell-python-file"


@pytest.mark.parametrize(
    "line",
    [
        "env: 'bash\\r': No such file or directory",
        "env: \u2018python3\\r\u2019: No such file or directory",
        "train.sh: line 2: $'\\r': command not found",
        "bash: ./train.sh: /bin/bash^M: bad interpreter: No such file or directory",
        "train.sh: line 7: syntax error near unexpected token `$'do\\r''",
    ],
)
def test_windows_line_ends_have_many_messages(context: Context, line: str) -> None:
    assert explain_lines([line, "exit status 127"], context)[0].code == "shell-crlf"


def test_a_consequence_on_the_line_of_its_cause_is_left_out(context: Context) -> None:
    line = "Error for Training job a: Failed. Reason: ClientError: Artifact upload failed:Insufficient disk space"
    assert shape(explain_lines([line], context)) == [("artifact-too-large", "error", [])]


SOCKET = "algo-1:57:89 [0] NCCL INFO Using network Socket"
TWO_HOSTS = "algo-1:57:89 [0] NCCL INFO comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"


def test_sockets_between_hosts_are_slow_where_the_type_has_efa(context: Context) -> None:
    (found,) = explain_lines([SOCKET, TWO_HOSTS], context.on_instance("ml.p5en.48xlarge"))
    assert (found.code, found.severity.value) == ("efa-not-used", "warning")
    assert "does not know this type" in (found.here or "")
    assert found.remedy.startswith("Set in the job's environment: FI_PROVIDER=efa")


def test_a_type_that_awss_launcher_knows_needs_no_variables(context: Context) -> None:
    (found,) = explain_lines([SOCKET, TWO_HOSTS], context.on_instance("ml.p5.48xlarge"))
    assert "FI_EFA_USE_DEVICE_RDMA=1" not in found.remedy


@pytest.mark.parametrize(
    "lines",
    [
        [SOCKET, TWO_HOSTS.replace("nNodes 2", "nNodes 1")],
        [
            SOCKET,
            "algo-1:57:89 [0] NCCL INFO comm 0x5 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1 commId 0x1 - Init START",
        ],
    ],
)
def test_one_host_needs_no_network(context: Context, lines: list[str]) -> None:
    assert explain_lines(lines, context.on_instance("ml.p5.48xlarge")) == []


def test_sockets_are_normal_where_there_is_no_efa(context: Context) -> None:
    assert explain_lines([SOCKET, TWO_HOSTS], context.on_instance("ml.g5.xlarge")) == []
    assert explain_lines([SOCKET, TWO_HOSTS], context) == []


def test_the_efa_plugin_on_a_type_without_efa_is_harmless(context: Context) -> None:
    line = "algo-1:249:249 [0] ofi_init:1288 NCCL WARN NET/OFI Only EFA provider is supported"
    (found,) = explain_lines([line], context.on_instance("ml.g4dn.xlarge"))
    assert found.severity.value == "warning"
    assert "harmless" in (found.here or "")
    assert "security group" not in found.remedy


def test_a_variable_that_the_job_already_sets_is_not_sold_as_new(context: Context) -> None:
    from gpuproof.explain.context import JobFacts

    set_before = replace(context, job=JobFacts(environment={"CUDA_LAUNCH_BLOCKING": "1"}))
    line = "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert "This job already sets CUDA_LAUNCH_BLOCKING." in explain_lines([line], set_before)[0].remedy
    assert "already sets" not in explain_lines([line], replace(context, job=JobFacts()))[0].remedy


def test_a_consequence_without_a_traceback_makes_the_warning_the_cause(context: Context) -> None:
    closed = "algo-1:57:89 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer algo-2<57557>"
    (found,) = explain_lines([REFUSED, closed], context)
    assert (found.code, found.severity.value) == ("nccl-connect-failed", "error")


def test_what_nccl_prints_after_last_error_is_quoted(context: Context) -> None:
    last = "socketStartConnect: exceeded retries (20000)"
    (found,) = explain_lines([*NCCL_ERROR, "Last error:", last], context)
    assert found.code == "nccl-last-error"
    assert last in found.cause
    assert "nccl-system-error" in [other.code for other in found.consequences]


def test_a_warning_says_more_than_the_last_error(context: Context) -> None:
    (found,) = explain_lines([PROXY, *NCCL_ERROR, "Last error:", "Proxy Call to rank 0 failed"], context)
    assert found.code == "nccl-warning"


def test_gpus_that_cannot_access_each_other_are_told_apart_from_other_failures(context: Context) -> None:
    line = "Cuda failure 217 'peer access is not supported between these two devices'"
    (found,) = explain_lines([*NCCL_ERROR, "Last error:", line], context)
    assert found.code == "nccl-peer-access"
    assert "NCCL_P2P_DISABLE=1" in found.remedy
