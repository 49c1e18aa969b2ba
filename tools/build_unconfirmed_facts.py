"""Writes the list of facts about AWS that no account has confirmed into docs/limits.md, and their number into README.md.

python tools/build_unconfirmed_facts.py          # write them
python tools/build_unconfirmed_facts.py --check  # exit 1 if they are not current
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from build_cli_docs import write_or_check

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

_SECTION = re.compile(r"(?<=<!-- unconfirmed facts -->\n).*(?=<!-- end of unconfirmed facts -->)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?= facts about AWS)")


def main() -> int:
    """Write, or with --check compare."""
    page, readme = ROOT / "docs/limits.md", ROOT / "README.md"
    section = "\n".join(lines()) + "\n"
    written = _SECTION.sub(lambda _: section, page.read_text("utf-8"))
    number = _NUMBER.sub(str(len(unconfirmed())), readme.read_text("utf-8"))
    return max(write_or_check(page, written, __doc__), write_or_check(readme, number, __doc__))


def unconfirmed() -> list[str]:
    """The facts that no recording of an account confirms, by their ids."""
    from acceptance.facts import facts
    from acceptance.recording import confirmed_facts

    confirmed = confirmed_facts()
    return [name for name in facts() if name not in confirmed]


def lines() -> Iterator[str]:
    """The section: a sentence and a table."""
    from acceptance.facts import facts
    from acceptance.steps import STEPS

    step_of = {fact: f"`{step.name}`" for step in STEPS for fact in step.facts}
    step_of["user-policies"] = "all, with `--only-printed-policies`"
    names = unconfirmed()
    yield f"Of {len(facts())} facts, {len(names)} are unconfirmed; the acceptance run would confirm {sum(name in step_of for name in names)}."
    yield ""
    yield "| about | what the code assumes | if it is wrong | step |"
    yield "|---|---|---|---|"
    for name in names:
        fact = facts()[name]
        assumption = (
            fact.assumption if fact.source == "no document" else f"[{fact.assumption}]({fact.source})"
        )
        yield f"| {fact.area} | {assumption} | {fact.if_wrong} | {step_of.get(name, 'none')} |"


if __name__ == "__main__":
    sys.exit(main())
