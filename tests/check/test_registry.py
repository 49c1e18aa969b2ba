"""The registry of rules, and their selection."""

import pytest

from gpuproof.errors import UsageError
from gpuproof.linter.registry import Selection, select_rules


def test_strict_rules_are_off_unless_selected() -> None:
    on = {rule.code for rule in select_rules(Selection())}
    strict = {rule.code for rule in select_rules(Selection(select=("ALL",))) if rule.when == "strict"}
    assert "E901" in on
    assert not on & strict
    assert strict <= {rule.code for rule in select_rules(Selection(extend=tuple(strict)))}


@pytest.mark.parametrize(
    ("selection", "on"),
    [
        (Selection(select=("E901",)), True),
        (Selection(select=("E",)), True),
        (Selection(select=("syntax-error",)), True),
        (Selection(select=("DS",)), False),
        (Selection(ignore=("E9",)), False),
        (Selection(select=("E901",), ignore=("E",)), True),
        (Selection(select=("E",), ignore=("E901",)), False),
        (Selection(select=("DS",), extend=("E901",)), True),
    ],
)
def test_the_closer_word_wins(selection: Selection, on: bool) -> None:
    assert ("E901" in {rule.code for rule in select_rules(selection)}) is on


def test_a_code_that_means_nothing_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="E9001"):
        select_rules(Selection(select=("E9001",)))
