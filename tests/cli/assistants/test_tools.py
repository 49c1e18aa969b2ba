"""Which commands and options an assistant may use, and how its arguments become a command line."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from gpuproof.cli.assistants.tools import TOOLS, Tool, command_words, input_schema
from gpuproof.cli.main import root_parser
from gpuproof.errors import UsageError

CHANGES = {
    "fix",
    "unsafe_fixes",
    "delete",
    "include_data",
    "yes",
    "python",
    "max_cost",
    "no_check",
    "history",
}
"""Options that change files or the account, run another program, or are the server's own."""


def tool(name: str) -> Tool:
    return next(tool for tool in TOOLS if tool.name == name)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_describes_each_argument(tool: Tool) -> None:
    schema = input_schema(tool)
    Draft202012Validator.check_schema(schema)
    assert set(tool.arguments) <= set(schema["properties"])
    assert all(found["description"] for found in schema["properties"].values())
    assert not CHANGES & set(schema["properties"])


def test_tools_that_may_cost_money_or_change_something_are_marked() -> None:
    assert {tool.name for tool in TOOLS if tool.spends} == {"run", "deploy", "stop", "delete"}


def test_types_and_choices_come_from_the_parser() -> None:
    properties = input_schema(tool("plan"))["properties"]
    assert properties["epochs"]["type"] == "integer"
    assert properties["budget"]["type"] == "number"
    assert properties["spot"]["type"] == "boolean"
    assert properties["on"]["enum"] == ["ec2", "sagemaker"]
    assert properties["input"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": properties["input"]["description"],
    }
    assert input_schema(tool("delete"))["required"] == ["names"]


def test_a_call_becomes_a_command_that_the_parser_accepts() -> None:
    words = command_words(
        tool("run"),
        {
            "target": "train.py",
            "on": "sagemaker",
            "hyperparameter": ["epochs=3", "lr=-1"],
            "require_gpu": False,
            "spot": True,
            "instance_count": 2,
            "script_arguments": ["--verbose", -1],
        },
    )
    end = words.index("--")
    assert words[end:] == ["--", "--verbose", "-1"]
    parsed = root_parser(["run"]).parse_args(words[:end])
    assert (parsed.target, parsed.on, parsed.require_gpu, parsed.spot) == (
        "train.py",
        "sagemaker",
        False,
        True,
    )
    assert parsed.hyperparameters == ["epochs=3", "lr=-1"]
    assert parsed.detach


def test_a_value_cannot_become_an_option() -> None:
    assert command_words(tool("check"), {"select": ["--fix"]}) == ["check", "--select=--fix"]
    with pytest.raises(UsageError, match="--fix is not a name or a path"):
        command_words(tool("check"), {"paths": [".", "--fix"]})
    with pytest.raises(UsageError, match="-y is not"):
        command_words(tool("delete"), {"names": "-y"})


def test_a_misspelt_argument_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as raised:
        command_words(tool("gpus"), {"gpu_memmory": "40GB+"})
    assert raised.value.message == "The tool gpus has no argument gpu_memmory."
    assert raised.value.remedy == "Did you mean gpu_memory?"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("plan", {"spot": "yes"}, "spot of the tool plan is true or false"),
        ("plan", {"epochs": [1, 2]}, "epochs of the tool plan takes one value"),
        ("check", {"paths": [{"path": "."}]}, "paths of the tool check takes text, numbers"),
        ("explain", {"target": "train.log", "text": "CUDA error"}, "Pass text or target, not both"),
    ],
)
def test_a_wrong_value_is_an_error(name: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command_words(tool(name), arguments)


def test_a_text_is_read_from_standard_input() -> None:
    assert command_words(tool("explain"), {"text": "CUDA error", "on": "ec2"}) == ["explain", "-", "--on=ec2"]
