"""The parameters of calls by version: what is wrong with a call, and in which versions."""

import pytest

from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.knowledge.frameworks.call_signatures import find_mismatch
from gpuproof.linter.knowledge.frameworks.framework_version import Ternary, is_not_below
from support.check_helpers import module_of


def problem_of(text: str, name: str, version: str | None) -> str | None:
    def at_least(other: str) -> Ternary:
        if version is None:
            return "unknown"
        return "yes" if is_not_below(version, other) else "no"

    found = find_mismatch(all_calls(module_of(text))[0], name, at_least)
    return found.problem if found is not None else None


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        ("Adam(p, lr=1)", None, None),
        ("Adam(p, rate=1)", None, "`Adam` has no parameter `rate`"),
        ("Adam(lr=1)", None, "`Adam` needs `params`"),
        ("Adam(p, params=p)", None, "`Adam` gets `params` twice: by position and by name"),
        ("Adam(*p)", None, None),
        ("Adam(**p)", None, None),
        ("Adam(p, fused=True)", "1.9", "`Adam` has no parameter `fused`"),
        ("Adam(p, fused=True)", None, None),
        ("Adam(p, fused=True)", "2.5", None),
    ],
)
def test_what_is_wrong_with_a_call(text: str, version: str | None, problem: str | None) -> None:
    assert problem_of(text, "torch.optim.Adam", version) == problem


def test_a_version_between_two_that_were_read_may_be_like_either() -> None:
    """`in_order` came with 2.6; the version before it that was read is 2.4."""
    text = "DataLoader(d, in_order=True)"
    name = "torch.utils.data.DataLoader"
    assert problem_of(text, name, "2.4") is None
    assert problem_of(text, name, "2.3") is not None
