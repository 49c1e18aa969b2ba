"""Every rule has a page, and the pages say what the docstrings say."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from gpuproof.linter.docs.examples import read_documentation
from gpuproof.linter.docs.pages import render_index, render_page
from gpuproof.linter.registry import all_rules

ROOT = Path(__file__).resolve().parents[3]


def test_the_pages_under_docs_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_rule_docs.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\nrun: python tools/build_rule_docs.py"


def test_a_page_has_the_reason_and_every_example() -> None:
    missing = {}
    for rule in all_rules():
        text = render_page(rule)
        documentation = read_documentation(rule.doc)
        examples = (shown for example in documentation.examples for _, shown in example.shown)
        missing[rule.code] = [part for part in (documentation.reason, *examples) if part not in text]
        assert "# <-" not in text, rule.code
    assert {code: parts for code, parts in missing.items() if parts} == {}


def test_a_rule_is_named_and_filed_by_its_code() -> None:
    rules = ROOT / "src/gpuproof/linter/rules"
    for rule in all_rules():
        assert re.fullmatch(r"[A-Z]{1,3}\d{3}", rule.code), rule.code
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name), rule.code
    names = {f"{rule.code.lower()}_{rule.name.replace('-', '_')}.py" for rule in all_rules()}
    assert len(names) == len(all_rules())
    files = Counter(path.name for path in rules.glob("*/*.py"))
    assert {name: files[name] for name in names if files[name] != 1} == {}


def test_a_summary_is_one_sentence() -> None:
    summaries = {rule.code: read_documentation(rule.doc).summary for rule in all_rules()}
    assert {
        code: summary
        for code, summary in summaries.items()
        if len(summary) >= 200 or not summary.endswith((".", "!", "?"))
    } == {}


def test_the_list_names_every_rule_once() -> None:
    codes = re.findall(r"^\| \[(\w+)\]", render_index(all_rules()), re.MULTILINE)
    assert codes == [rule.code for rule in all_rules()]


def test_an_example_is_read_with_its_files_marks_and_titles() -> None:
    documentation = read_documentation(
        """First sentence,
        on two lines.

        More.

        Bad: why

            # file: a.py
            x = 1  # <-
            # file: b.ipynb
            y = 2
            # %%
            z = 3

        Quiet: another

            w = 1
        """
    )
    assert documentation.summary == "First sentence, on two lines."
    bad, quiet = documentation.examples
    assert (bad.kind, bad.title, bad.marked) == ("Bad", "why", frozenset({("a.py", 1)}))
    assert bad.files["a.py"] == "x = 1\n"
    assert '"source": "z = 3"' in bad.files["b.ipynb"]
    assert quiet.files == {"example.py": "w = 1\n"}
