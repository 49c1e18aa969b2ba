from __future__ import annotations

import pytest

from gpuproof.agent.failure import (
    LIMIT,
    describe_exit,
    error_line,
    exit_code,
    failure_text,
    reason,
)

TRACEBACK = """epoch 1
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 3, in <module>
    main()
  File "/opt/ml/code/train.py", line 2, in main
    raise ValueError("no rows in 'training'")
ValueError: no rows in 'training'
"""


def test_the_exception_of_the_last_traceback_is_found() -> None:
    assert error_line("Traceback (most recent call last):\n  x\nKeyError: 'a'\n" + TRACEBACK) == (
        "ValueError: no rows in 'training'"
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM",
        "AssertionError",
        "MyFault: with text",
    ],
)
def test_any_exception_class_is_recognised(line: str) -> None:
    assert error_line(f"Traceback (most recent call last):\n  File\n{line}\n[progress]") == line


def test_the_exception_is_found_behind_pytorchs_prefix_for_ranks() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 48',
        "ValueError: no data",
    ]
    assert error_line("".join(f"[rank12]: {line}\n" for line in lines)) == "ValueError: no data"


def test_output_without_a_traceback_names_no_exception() -> None:
    assert error_line("all is well") is None


def test_the_reason_names_script_code_and_exception() -> None:
    assert (
        reason("train.py", 1, TRACEBACK) == "train.py exited with code 1: ValueError: no rows in 'training'"
    )


def test_a_kill_is_named_with_its_usual_cause() -> None:
    assert "killed by SIGKILL" in describe_exit(-9)
    assert "memory" in describe_exit(-9)
    assert "memory" not in describe_exit(-15)
    assert describe_exit(-63) == "was killed by signal 63" or "SIG" in describe_exit(-63)


def test_signals_become_the_exit_codes_of_a_shell() -> None:
    assert exit_code(-9) == 137
    assert exit_code(3) == 3


def test_the_failure_file_has_the_toolkits_form() -> None:
    text = failure_text(["/usr/bin/python3", "train.py", "--name", "a b"], 1, TRACEBACK)
    assert text.startswith('ExecuteUserScriptError:\nExitCode 1\nErrorMessage "Traceback (most')
    assert "ValueError: no rows in 'training'" in text
    assert text.endswith("Command \"/usr/bin/python3 train.py --name 'a b'\"")


def test_a_long_traceback_still_shows_its_exception_within_sagemakers_limit() -> None:
    long = TRACEBACK.replace("    main()\n", "    main()\n" * 500)
    assert "ValueError: no rows" in failure_text(["python"], 1, long)[:LIMIT]


def test_a_known_error_takes_precedence_over_the_output() -> None:
    text = failure_text(
        ["torchrun", "train.py"], 1, "ChildFailedError", "rank 3: ValueError: no rows", TRACEBACK[8:]
    )
    assert 'ErrorMessage "rank 3: ValueError: no rows\nTraceback (most recent' in text
    assert text.endswith('Command "torchrun train.py"')
