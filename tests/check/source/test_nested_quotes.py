"""F-strings that only Python 3.12 and later accept are read with every version."""

import ast

import pytest

from gpuproof.linter.source import python
from gpuproof.linter.source.nested_quotes import requoted


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"""f"{row["loss"]}" """, r"""f"{row['loss']}" """),
        (r"""f"{", ".join(x)} {y}" """, r"""f"{', '.join(x)} {y}" """),
        (r"""f'{row['loss']:>{width['loss']}}' """, r"""f'{row["loss"]:>{width["loss"]}}' """),
        (r'''f"""{x["""a"""]}""" ''', r'''f"""{x[\'\'\'a\'\'\']}""" '''.replace("\\", "")),
        (r"""f"{"\n".join(x)}" """, r"""f"{' n'.join(x)}" """),
        (r"""rf"{row["loss"]}\d" """, r"""rf"{row['loss']}\d" """),
    ],
)
def test_other_quotes_are_used_inside(source: str, expected: str) -> None:
    assert requoted(source) == expected
    ast.parse(expected)
    tree, error = python.parse_text(source)
    assert tree is not None
    assert error is None


@pytest.mark.parametrize(
    "source",
    [
        """f'{x}' f"{y}" 'z'  # it's "\ny = "{" """,
        """f"{{}} {x}" + "z" """,
        """f'''{x['a']}''' """,
        """f"{x['a']!r:{'<'}10}" """,
        """x = {'a': 'b', "c": f'{d}'}""",
        r"""b'\\' + rb"{" """,
        """text = "f{" + '"' """,
        """if x != f'{y}': z = lambda: f'{y:.2f}'""",
    ],
)
def test_what_every_version_accepts_stays(source: str) -> None:
    ast.parse(source)
    assert requoted(source) == source


@pytest.mark.parametrize("source", ['f"{x', 'f"{row["loss"}"', "f'{}'"])
def test_what_no_version_accepts_stays_an_error(source: str) -> None:
    assert python.parse_text(source)[1] is not None


@pytest.mark.parametrize(
    "source", ['f"{f"{' * 5000, "f'{x:{" * 5000, "f'" + "{x:" * 5000, "f\"{'" * 5000, "it's f\"{\"f'{" * 100]
)
def test_texts_that_are_not_python_are_bounded(source: str) -> None:
    assert python.parse_text(source)[1] is not None
