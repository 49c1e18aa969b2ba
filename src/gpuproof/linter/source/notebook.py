"""Reads notebooks: the code cells as one text with a map to cells and lines, and `%%writefile` cells as files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuproof.linter.source import python
from gpuproof.linter.source.command_files import command_kind
from gpuproof.linter.source.decode import Unreadable
from gpuproof.linter.source.span import Segment, Unit

_PYTHON_CELL_MAGICS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "heat"})
"""Cell magics whose cells contain Python."""
_AUTOMAGICS = frozenset(
    [
        "alias",
        "autoreload",
        "bookmark",
        "cat",
        "cd",
        "conda",
        "config",
        "cp",
        "debug",
        "edit",
        "env",
        "ls",
        "ll",
        "less",
        "load",
        "load_ext",
        "lsmagic",
        "magic",
        "mamba",
        "man",
        "matplotlib",
        "micromamba",
        "mkdir",
        "more",
        "mv",
        "notebook",
        "pip",
        "popd",
        "precision",
        "prun",
        "pushd",
        "pwd",
        "pylab",
        "rehashx",
        "reload_ext",
        "rm",
        "rmdir",
        "run",
        "save",
        "set_env",
        "store",
        "system",
        "time",
        "timeit",
        "unload_ext",
        "uv",
        "who",
        "whos",
        "writefile",
    ]
)
"""Magics that IPython also recognises without `%` (automagic, on by default)."""
_OPERATOR = re.compile(r"\s*([=(\[,:;)+*%&|^<>@]|[-/]=|//|- |(if|is|in|not|and|or|for|else)\b)")
"""What follows a variable, so that IPython does not take its name for a magic: `config = {`."""
_HELP = re.compile(r"[\w.]+\?{1,2}")
_TEXT_OR_COMMENT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\#.*""")
_WRITEFILE = re.compile(r"^%%writefile\s+(?:-a\s+)?(['\"]?)(\S.*?)\1\s*$")
_ASSIGNED_MAGIC = re.compile(r"^(\s*[\w., ]+=\s*)[%!].*$")


def read(path: str, raw: bytes) -> list[Unit]:
    """Read the code of a notebook as one unit, plus one for each `%%writefile x.py` cell.

    Raises:
        Unreadable: it is not a notebook, or does not contain Python.
    """
    cells = list(_code_cells(_document(raw)))
    lines: list[str] = []
    segments: list[Segment] = []
    written: list[Unit] = []
    for number, source in cells:
        file = _written_file(path, number, source)
        if file is not None:
            written.append(file)
        indent = 0 if file is not None else _indent(source)
        segments.append(Segment(len(lines) + 1, 1, number, indent))
        lines += [""] * (source.count("\n") + 1) if file is not None else _python(_dedented(source, indent))
    notebook = Unit(
        path,
        "\n".join(lines),
        "notebook",
        segments=tuple(segments) or (Segment(1, 1, None),),
        raw="\n".join(source for _, source in cells),
    )
    return [notebook, *written]


def cell_sources(raw: bytes) -> dict[int, str]:
    """The unmodified source of each code cell, by number."""
    return dict(_code_cells(_document(raw)))


def _document(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except UnicodeDecodeError as error:
        raise Unreadable("the notebook is not UTF-8") from error
    except json.JSONDecodeError as error:
        if not raw.strip():
            raise Unreadable("the notebook is an empty file") from error
        raise Unreadable(f"the notebook is not JSON: {error.msg.lower()}", error.lineno) from error
    except RecursionError as error:
        raise Unreadable("the notebook is nested too deeply") from error
    if not isinstance(document, dict):
        raise Unreadable("the notebook is not a JSON object")
    return document


def _code_cells(document: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """The number and source of each code cell; format 3 has cells in worksheets.

    Cells are numbered from 1, those with text included, as in ruff's messages.
    """
    language = _language(document)
    if language not in ("", "python", "python3", "ipython", "ipython3", "python2"):
        return
    cells: Any = document.get("cells")
    if cells is None:
        sheets = document.get("worksheets")
        if not isinstance(sheets, list):
            raise Unreadable("the notebook has no cells")
        cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    if not isinstance(cells, list):
        raise Unreadable("the notebook's cells are not a list")
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input", ""))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        yield number, text.replace("\r\n", "\n").replace("\r", "\n")


def _language(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    # SageMaker Studio writes that the kernels of all custom images speak Python; the other entry comes from the kernel itself.
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and isinstance(part.get(name), str):
            return str(part[name]).lower()
    return ""


def _written_file(path: str, number: int, source: str) -> Unit | None:
    head, _, body = source.lstrip("\n").partition("\n")
    match = _WRITEFILE.match(head.rstrip())
    if match is None:
        return None
    skipped = len(source) - len(source.lstrip("\n"))
    name = match.group(2)
    folder = path.rpartition("/")[0]
    full = name if name.startswith("/") or not folder else f"{folder}/{name}"
    if (commands := command_kind(name.rpartition("/")[2])) is not None:
        return Unit(path, body, commands, name=full, segments=(Segment(1, skipped + 2, number),))
    kind = "cell-file" if name.endswith(".py") else "requirements"
    if kind == "requirements" and not re.search(r"requirements[\w.-]*\.txt$", name):
        return None
    return Unit(path, body, kind, name=full, segments=(Segment(1, skipped + 2, number),))


def _python(source: str) -> list[str]:
    """The lines of a cell, with IPython syntax replaced by equivalent Python, line by line."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if _cell_magic(first) not in (None, *_PYTHON_CELL_MAGICS):
        return [""] * len(lines)
    result: list[str] = []
    continued = in_text = False
    depth = 0
    for number, line in enumerate(lines):
        stripped = line.lstrip()
        # Within brackets, `%` and `!` are operators.
        is_statement = not in_text and depth <= 0
        if continued:
            continued = line.rstrip().endswith("\\")
            result.append("")
        elif is_statement and line is not first and _cell_magic(line) not in (None, *_PYTHON_CELL_MAGICS):
            # `%%time` above `%%bash`: the rest of the cell is no Python.
            return [*result, *([""] * (len(lines) - number))]
        elif is_statement and (stripped[:1] in ("%", "!", "?") or _is_automagic(stripped)):
            continued = line.rstrip().endswith("\\")
            result.append(line[: len(line) - len(stripped)] + "pass")
        elif is_statement and _HELP.fullmatch(stripped.rstrip()):
            result.append("pass")
        elif is_statement and (match := _ASSIGNED_MAGIC.match(line)):
            continued = line.rstrip().endswith("\\")
            result.append(match.group(1) + "None")
        else:
            result.append(line)
            if (line.count('"""') + line.count("'''")) % 2:
                in_text = not in_text
            elif not in_text:
                code = _TEXT_OR_COMMENT.sub("", line)
                depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
    return result


def _indent(source: str) -> int:
    """The indentation of a cell's first line, which IPython removes from all lines."""
    first = next((line for line in source.split("\n") if line.strip()), "")
    return len(first) - len(first.lstrip(" "))


def _dedented(source: str, indent: int) -> str:
    return source if not indent else re.sub(rf"^ {{{indent}}}", "", source, flags=re.MULTILINE)


def _cell_magic(line: str) -> str | None:
    """The name of the cell magic on a line, such as `bash` of `%%bash`; None without one."""
    if not line.lstrip().startswith("%%"):
        return None
    return (line.lstrip()[2:].split(None, 1) or [""])[0]


def _is_automagic(line: str) -> bool:
    """Whether IPython runs a line as a magic or shell command without `%`: `pip install torch`, `cd data`."""
    word, space, rest = line.partition(" ")
    if word not in _AUTOMAGICS or not space or not rest.strip() or _OPERATOR.match(rest):
        return False
    return python.parse_text(line)[0] is None
