"""Fixes change what they say and nothing else: line ends, encoding, layout and mode stay."""

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.apply import (
    FileChange,
    apply_edits,
    plan_fixes,
    select_fixes,
    unified_diff,
    write_change,
)
from gpuproof.linter.fixing.edits import (
    add_keyword,
    insert_line,
    remove_keyword,
    replace_node,
    wrap,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.read import read_file

RULE = Rule("T101", "test-rule", Severity.WARNING)
Make = Callable[[Module], tuple[Edit, ...]]


def hits_of(path: Path, make: Make, *, safe: bool = True) -> list[Hit]:
    """A finding in each unit of a file, with the edits that `make` wants."""
    units = read_file(str(path))
    project = Project(units)
    found: list[Hit] = []
    for unit in units:
        module = project.workspace.module(unit)
        assert module is not None
        edits = make(module)
        if edits:
            found.append(RULE.hit(edits[0].span, "a message", fix=Fix("Mend it", edits, safe)))
    return found


def fixed(path: Path, make: Make, *, safe: bool = True, unsafe: bool = False) -> FileChange | None:
    changes = plan_fixes(hits_of(path, make, safe=safe), unsafe=unsafe)
    return changes[0] if changes else None


def rename(old: str, new: str) -> Make:
    """Replaces every use of a name."""
    return lambda module: tuple(
        replace_node(module, node, new) for node in module.nodes(ast.Name) if node.id == old
    )


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        (b"a = 1\nb = a\n", b"long = 1\nb = long\n"),
        (b"a = 1\r\nb = a\r\n", b"long = 1\r\nb = long\r\n"),
        (b"a = 1\rb = a\r", b"long = 1\rb = long\r"),
        (b"a = 1\nb = a", b"long = 1\nb = long"),
        (b"a = 1\r\nb = 2\nc = a\r\n", b"long = 1\r\nb = 2\nc = long\r\n"),
        (b"\xef\xbb\xbfa = 1\n", b"\xef\xbb\xbflong = 1\n"),
        (
            "# coding: latin-1\ns = 'é'; a = 1\n".encode("latin-1"),
            "# coding: latin-1\ns = 'é'; long = 1\n".encode("latin-1"),
        ),
        ("s = 'é→'; a = 1\n".encode(), "s = 'é→'; long = 1\n".encode()),
    ],
)
def test_line_ends_and_encoding_stay(tmp_path: Path, raw: bytes, after: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(raw)
    change = fixed(path, rename("a", "long"))
    assert change is not None
    assert change.after == after


def test_a_fix_that_the_encoding_cannot_hold_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("# coding: latin-1\ns = 'é'; a = 1\n".encode("latin-1"))
    assert fixed(path, rename("a", "'→'")) is None


def test_a_fix_after_which_the_file_does_not_parse_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    assert fixed(path, rename("a", "(")) is None


def test_a_broken_fix_does_not_hold_up_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\nb = 2\n")
    units = read_file(str(path))
    module = Project(units).workspace.module(units[0])
    assert module is not None
    hits = [
        RULE.hit(module.span(node), "m", fix=Fix("f", (replace_node(module, node, new),), safe=True))
        for node, new in zip(module.nodes(ast.Name), ("((", "c"), strict=True)
    ]
    (change,) = plan_fixes(hits)
    assert change.after == b"a = 1\nc = 2\n"
    assert len(change.fixed) == 1


def test_unsafe_fixes_are_made_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    assert fixed(path, rename("a", "b"), safe=False) is None
    assert fixed(path, rename("a", "b"), safe=False, unsafe=True) is not None


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    hits = hits_of(path, rename("a", "b"))
    path.write_text("a = 2\n")
    assert plan_fixes(hits) == []


def test_edits_that_overlap_are_made_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("f(a)\n")
    units = read_file(str(path))
    module = Project(units).workspace.module(units[0])
    assert module is not None
    whole, name = module.nodes(ast.Call)[0], module.nodes(ast.Name)[1]
    hits = [
        RULE.hit(module.span(node), "m", fix=Fix("f", (replace_node(module, node, "x"),), safe=True))
        for node in (whole, name)
    ]
    assert [hit for hit, _ in select_fixes(hits, unsafe=False)] == [hits[0]]


def test_the_same_edit_wanted_twice_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    (change,) = plan_fixes(hits_of(path, rename("a", "b")) * 2)
    assert change.after == b"b = 1\n"


@pytest.mark.parametrize("layout", [{"indent": 1}, {"indent": 2}, {}, {"indent": 1, "ensure_ascii": False}])
def test_a_notebook_keeps_its_layout(tmp_path: Path, layout: dict[str, object]) -> None:
    path = tmp_path / "a.ipynb"
    document = {
        "cells": [
            {"cell_type": "markdown", "source": ["# é"]},
            {"cell_type": "code", "source": ["%pip list\n", "a = 1\n", "é = a"], "outputs": []},
            {"cell_type": "code", "source": "b = 2"},
        ],
        "metadata": {},
    }
    path.write_text(json.dumps(document, **layout) + "\n")  # type: ignore[arg-type]
    change = fixed(path, rename("a", "long"))
    assert change is not None
    document["cells"][1]["source"] = ["%pip list\n", "long = 1\n", "é = long"]
    assert change.after.decode() == json.dumps(document, **layout) + "\n"  # type: ignore[arg-type]


def test_a_notebook_in_an_unusual_layout_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells":   [ {"cell_type": "code", "source": "a = 1"} ]}')
    assert fixed(path, rename("a", "b")) is None


def test_a_writefile_cell_is_fixed_in_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    document = {"cells": [{"cell_type": "code", "source": "%%writefile t.py\na = 1"}]}
    path.write_text(json.dumps(document))
    change = fixed(path, rename("a", "b"))
    assert change is not None
    assert json.loads(change.after)["cells"][0]["source"] == "%%writefile t.py\nb = 1"


def test_a_block_of_markdown_is_fixed_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# x\n\n- item:\n\n  ```python\n  a = 1\n  ```\n")
    change = fixed(path, rename("a", "long"))
    assert change is not None
    assert change.after.decode() == "# x\n\n- item:\n\n  ```python\n  long = 1\n  ```\n"


def test_writing_keeps_links_and_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("a = 1\n")
    real.chmod(0o755)
    link.symlink_to("real.py")
    change = fixed(link, rename("a", "b"))
    assert change is not None
    write_change(change)
    assert link.is_symlink()
    assert real.read_text() == "b = 1\n"
    assert real.stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


def test_a_diff_shows_the_change(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    change = fixed(path, rename("a", "b"))
    assert change is not None
    assert [line for line in unified_diff(change) if line[:1] in "+-"][2:] == ["-a = 1", "+b = 1"]


def edited(text: str, make: Callable[[Module], Edit | tuple[Edit, ...] | None]) -> str:
    from support.check_helpers import module_of

    module = module_of(text)
    edits = make(module)
    assert edits is not None
    return "\n".join(apply_edits(module.unit.lines, edits if isinstance(edits, tuple) else (edits,)))


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("f()", "f(k=1)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a, )", "f(a, k=1, )"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    k=1,\n)"),
        ("f(\n    a,\n    b)", "f(\n    a,\n    b, k=1)"),
        ("f(a, b=1, **c)", "f(a, b=1, **c, k=1)"),
    ],
)
def test_a_keyword_is_added_in_the_calls_own_form(text: str, after: str) -> None:
    result = edited(text, lambda module: add_keyword(all_calls(module)[0], "k=1"))
    ast.parse(result)
    assert result == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("f(k=1)", "f()"),
        ("f(k=1, a=2)", "f(a=2)"),
        ("f(a, k=1)", "f(a)"),
        ("f(a, k=1, b=2)", "f(a, b=2)"),
        ("f(\n    a=1,\n    k=2,\n)", "f(\n    a=1,\n)"),
        ("f(\n    k=2,\n    a=1,\n)", "f(\n    a=1,\n)"),
    ],
)
def test_a_keyword_is_dropped_with_one_comma(text: str, after: str) -> None:
    result = edited(text, lambda module: remove_keyword(all_calls(module)[0], "k"))
    ast.parse(result)
    assert result == after


def test_a_line_is_inserted_with_the_indent_of_what_follows() -> None:
    result = edited(
        "for x in y:\n    f(x)\n", lambda module: insert_line(module, module.nodes(ast.For)[0].body[0], "g()")
    )
    assert result == "for x in y:\n    g()\n    f(x)\n"


def test_a_node_is_wrapped() -> None:
    assert (
        edited("f(a)", lambda module: wrap(module, all_calls(module)[0].node.args[0], "g(", ")")) == "f(g(a))"
    )
