"""Exceptions that are in no table: explained by their kind, by who raised them and by the line that called it."""

from __future__ import annotations

import pytest

from gpuproof.explain import Context, Explanation, Report, make_report
from gpuproof.explain.patterns import data_rows
from gpuproof.explain.scan import scan_lines

SCRIPT = ('  File "/opt/ml/code/train.py", line 64, in main', "    trainer.train()")
PACKAGE = (
    '  File "/opt/conda/lib/python3.12/site-packages/transformers/trainer.py", line 2241, in train',
    "    inner()",
)
HEADER = "Traceback (most recent call last):"


def report(context: Context, *lines: str) -> Report:
    return make_report([scan_lines(lines)], context)


def root(context: Context, *lines: str) -> Explanation:
    return report(context, *lines).explanations[0]


def test_a_value_that_a_package_refuses_names_package_and_call(context: Context) -> None:
    found = root(context, HEADER, *SCRIPT, *PACKAGE, "ValueError: Unknown schedule 'cosin'")
    assert found.code == "exception-value"
    assert "transformers does not accept a value that it was given: Unknown schedule 'cosin'." in found.cause
    assert "in trainer.py, train()" in (found.here or "")
    assert "train.py, line 64 called it (trainer.train())" in (found.here or "")


def test_the_advice_of_a_message_is_quoted(context: Context) -> None:
    found = root(
        context, HEADER, *SCRIPT, *PACKAGE, "RuntimeError: the cache is stale", "Please delete it first."
    )
    assert '"Please delete it first."' in found.remedy


def test_an_exception_without_a_kind_is_not_recognized_but_its_place_is_shown(context: Context) -> None:
    found = report(context, HEADER, *SCRIPT, *PACKAGE, "RuntimeError: frobnication 7")
    assert found.cause_unknown
    assert found.unrecognized is not None
    assert "The package transformers raised it" in (found.unrecognized.here or "")


def test_a_launcher_that_reports_a_failure_is_a_consequence_of_the_exception(context: Context) -> None:
    child = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    found = root(context, HEADER, *SCRIPT, *PACKAGE, "RuntimeError: frobnication 7", child)
    assert [other.code for other in found.consequences] == ["torch-child-failed"]
    assert found.text == "RuntimeError: frobnication 7"


def test_what_ends_because_another_process_failed_is_not_the_cause(context: Context) -> None:
    first = (HEADER, *SCRIPT, *PACKAGE, "ValueError: Unknown schedule 'cosin'", "")
    found = root(context, *first, HEADER, *SCRIPT, "asyncio.exceptions.CancelledError")
    assert found.text.startswith("ValueError")


def test_an_exception_that_followed_from_another_names_it(context: Context) -> None:
    found = root(
        context,
        HEADER,
        *PACKAGE,
        "ValueError: too many dimensions 'str'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        HEADER,
        *SCRIPT,
        *PACKAGE,
        "ValueError: Unable to create tensor",
    )
    assert "It followed from ValueError: too many dimensions 'str'." in (found.here or "")


def test_modules_of_python_itself_are_not_blamed(context: Context) -> None:
    found = root(
        context,
        HEADER,
        *SCRIPT,
        '  File "/usr/lib/python3.12/json/decoder.py", line 363, in raw_decode',
        "    raise JSONDecodeError(MESSAGE, s, err.value) from None",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    )
    assert found.code == "exception-content"
    assert (found.here or "").startswith("train.py, line 64")


@pytest.mark.parametrize(
    "frames",
    [
        (
            "ValueError                                Traceback (most recent call last)",
            "Cell In[9], line 3",
            "      1 import x",
            "----> 3 trainer.train()",
            "",
            "File /opt/conda/lib/python3.12/site-packages/transformers/trainer.py:2241, in Trainer.train(self)",
            "   2240     y = 1",
            "-> 2241     inner()",
            "",
        ),
        (
            "╭─────────── Traceback (most recent call last) ───────────╮",
            "│ /opt/ml/code/train.py:3 in <module>                      │",
            "│ ❱ 3 trainer.train()                                      │",
            "│ /opt/conda/lib/python3.12/site-packages/transformers/trainer.py:2241 in train │",
            "│ ❱ 2241     inner()                                       │",
            "╰─────────────────────────────────────────────────────────╯",
        ),
    ],
    ids=["notebook", "rich"],
)
def test_tracebacks_of_notebooks_and_of_rich_are_read(frames: tuple[str, ...], context: Context) -> None:
    found = root(context, *frames, "ValueError: Unknown schedule 'cosin'")
    assert "The package transformers raised it in trainer.py" in (found.here or "")
    assert "line 3 called it (trainer.train())" in (found.here or "")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)", "exception-shape"),
        ("TypeError: step() missing 1 required positional argument: 'loss'", "exception-signature"),
        ("NameError: name 'PeftModel' is not defined", "exception-optional-package"),
        ("TypeError: 'NoneType' object is not subscriptable", "exception-none"),
        ("ImportError: peft is not available. pip install peft", "exception-pip"),
        ("KeyError: 'llama4'", "exception-key"),
        ("torch._dynamo.exc.Unsupported: call_method UserDefined", "exception-compile"),
        ("AttributeError: Can't pickle local object 'main.<locals>.<lambda>'", "exception-pickle"),
        ("RuntimeError: element 0 of tensors does not require grad", "exception-autograd"),
        ("ValueError: Input X contains NaN.", "exception-nan"),
        (
            "botocore.exceptions.ClientError: An error occurred (ConflictException) when calling the Tag operation: busy",
            "exception-aws",
        ),
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error", "exception-settings"),
        ("ZeroDivisionError: division by zero", "exception-empty"),
        ("IndexError: list index out of range", "exception-index"),
        ("AssertionError: batch is not divisible", "exception-assertion"),
        ("NotImplementedError: no 4-bit on this device", "exception-not-implemented"),
        ("requests.exceptions.HTTPError: 503 Server Error", "exception-network"),
    ],
)
def test_kinds_are_known_by_type_and_message(message: str, code: str, context: Context) -> None:
    assert root(context, HEADER, *SCRIPT, *PACKAGE, message).code == code


def test_every_kind_has_cause_and_remedy() -> None:
    for row in data_rows("exceptions"):
        assert row["cause"]
        assert row["remedy"]
        assert row["recognized"] in ("yes", "no")


@pytest.mark.parametrize(
    "prefix",
    [
        "#12 3.374     ",
        "2.327       ",
        "2025-10-30 20:20:53,713 - Tuner - INFO - ",
        "(EngineCore_DP0 pid=54) ERROR 10-28 23:01:07 [core.py:708] ",
        "[2025-06-01 10:00:00 TP0] ",
        "2025-06-01T10:00:00,123 [INFO ] W-9000-model_1.0-stdout MODEL_LOG - ",
    ],
)
def test_a_traceback_is_read_through_the_prefixes_of_loggers(prefix: str, context: Context) -> None:
    lines = (HEADER, *SCRIPT, *PACKAGE, "ValueError: Unknown schedule 'cosin'")
    found = root(context, *(prefix + line for line in lines))
    assert found.code == "exception-value"
    assert "train.py, line 64 called it" in (found.here or "")


def test_modules_that_pass_an_attribute_on_are_not_blamed(context: Context) -> None:
    found = root(
        context,
        HEADER,
        *SCRIPT,
        *PACKAGE,
        '  File "/opt/conda/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1964, in __getattr__',
        "    raise AttributeError(",
        "AttributeError: 'Enformer' object has no attribute 'tied'",
    )
    assert "The package transformers raised it" in (found.here or "")


def test_an_error_line_at_the_end_of_a_log_is_a_failure(context: Context) -> None:
    found = report(context, "Step 3", "cmake: error: could not load cache")
    assert found.cause_unknown
    assert found.failure == (2, "cmake: error: could not load cache")


def test_causes_that_a_message_lists_are_quoted(context: Context) -> None:
    text = "RuntimeError: Could not load libfoo. Likely causes:"
    found = root(
        context, HEADER, *SCRIPT, *PACKAGE, text, "   1. bar is not installed.", "   2. torch is older."
    )
    assert "Likely causes: 1. bar is not installed. 2. torch is older." in found.remedy


def test_what_the_script_raises_itself_is_not_explained_but_shown(context: Context) -> None:
    frame = ('  File "/opt/ml/code/train.py", line 3, in load', "    raise ValueError('no rows')")
    found = report(context, HEADER, *frame, "ValueError: no rows")
    assert found.cause_unknown
    assert found.unrecognized is not None
    assert "train.py, line 3 raised it" in (found.unrecognized.here or "")


def test_a_folder_that_a_package_misses_is_created(context: Context) -> None:
    message = "ValueError: Inputted directory for temporary files does not exist: '/tmp/builder/108d'"
    found = root(context, HEADER, *SCRIPT, *PACKAGE, message)
    assert found.code == "exception-folder"
    assert "os.makedirs('/tmp/builder/108d', exist_ok=True)" in found.remedy


def test_a_message_about_a_folder_without_a_path_is_none(context: Context) -> None:
    found = root(context, HEADER, *SCRIPT, *PACKAGE, "ValueError: the directory of this plan does not exist")
    assert found.code != "exception-folder"
