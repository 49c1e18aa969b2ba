"""Reads the signatures of functions and classes from the sources of a package, without importing it.

A package is a wheel, or the folder in which it is installed.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAX_DEPTH = 12


class Found(NamedTuple):
    """A function or class, and the module that defines it."""

    module: str
    node: ast.FunctionDef | ast.ClassDef


class Parameters(NamedTuple):
    """The parameters of a function.

    Attributes:
        positional, keyword_only: names with whether they are required.
        takes_more: `*args`, `**kwargs`, or both.
    """

    positional: dict[str, bool]
    keyword_only: dict[str, bool]
    takes_more: frozenset[str]


class PackageSources:
    """The source files of one version of a package.

    Args:
        place: a wheel, or a folder that contains the package.
    """

    def __init__(self, place: Path, package: str) -> None:
        self.package = package
        self._archive = zipfile.ZipFile(place) if place.suffix == ".whl" else None
        self._folder = place
        self._trees: dict[str, ast.Module | None] = {}

    def modules(self) -> Iterator[str]:
        """The dotted names of its modules."""
        if self._archive is not None:
            names = self._archive.namelist()
        else:
            names = [
                str(path.relative_to(self._folder)) for path in (self._folder / self.package).rglob("*.py")
            ]
        for name in sorted(names):
            if name.startswith(f"{self.package}/") and name.endswith(".py"):
                yield name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def tree(self, module: str) -> ast.Module | None:
        """The syntax of a module; None if there is no such module."""
        if module not in self._trees:
            text = self._text(module)
            try:
                self._trees[module] = ast.parse(text) if text is not None else None
            except SyntaxError:
                self._trees[module] = None
        return self._trees[module]

    def find(self, dotted: str, depth: int = 0) -> Found | None:
        """The definition of a public name, through the imports of the package."""
        module, _, name = dotted.rpartition(".")
        tree = self.tree(module) if module else None
        if tree is None or depth > _MAX_DEPTH:
            return None
        stars: list[str] = []
        for node in _statements(tree):
            match node:
                case ast.ClassDef(name=own) if own == name:
                    return Found(module, node)
                case ast.FunctionDef(name=own) if own == name and not _is_overload(node):
                    return Found(module, node)
                case ast.ImportFrom(names=names):
                    base = self._base(module, node)
                    for alias in names:
                        if alias.name == "*":
                            stars.append(base)
                        elif (alias.asname or alias.name) == name:
                            return self.find(f"{base}.{alias.name}", depth + 1)
                case ast.Assign(
                    targets=[ast.Name(id=own)], value=(ast.Name() | ast.Attribute()) as value
                ) if own == name:
                    return self.find(self._expand(module, ast.unparse(value)), depth + 1)
                case _:
                    pass
        return next((found for base in stars if (found := self.find(f"{base}.{name}", depth + 1))), None)

    def parameters(self, found: Found, method: str = "__init__") -> Parameters | None:
        """The parameters of a function, or of a method of a class without `self`, with those that `**kwargs` passes on."""
        if isinstance(found.node, ast.FunctionDef):
            return _of_arguments(found.node.args, skip_first=False)
        return self._of_class(found, method, 0)

    def bases(self, found: Found) -> Iterator[Found]:
        """The base classes of a class that the package defines."""
        if isinstance(found.node, ast.ClassDef):
            for base in found.node.bases:
                text = ast.unparse(base)
                other = (
                    self.find(f"{found.module}.{text}")
                    if "." not in text
                    else self.find(self._expand(found.module, text))
                )
                if other is not None:
                    yield other

    def _of_class(self, found: Found, method: str, depth: int) -> Parameters | None:
        if depth > _MAX_DEPTH or not isinstance(found.node, ast.ClassDef):
            return None
        own = next(
            (
                node
                for node in _statements(ast.Module(found.node.body, []))
                if isinstance(node, ast.FunctionDef) and node.name == method and not _is_overload(node)
            ),
            None,
        )
        if own is None and method == "__init__" and _is_dataclass(found.node):
            return self._of_dataclass(found)
        if own is None:
            return next(
                (given for base in self.bases(found) if (given := self._of_class(base, method, depth + 1))),
                None,
            )
        given = _of_arguments(own.args, skip_first=True)
        if "**" not in given.takes_more or not _passes_on(own):
            return given
        above = next(
            (more for base in self.bases(found) if (more := self._of_class(base, method, depth + 1))), None
        )
        if above is None:
            return given
        more = {**dict.fromkeys(above.positional, False), **dict.fromkeys(above.keyword_only, False)}
        more = {
            name: False for name in more if name not in given.positional and name not in given.keyword_only
        }
        takes = (given.takes_more - {"**"}) | (above.takes_more & {"**"})
        return Parameters(given.positional, {**given.keyword_only, **more}, takes)

    def _of_dataclass(self, found: Found) -> Parameters | None:
        fields: dict[str, bool] = {}
        for base in self.bases(found):
            if isinstance(base.node, ast.ClassDef) and _is_dataclass(base.node):
                inherited = self._of_dataclass(base)
                fields.update(inherited.positional if inherited is not None else {})
        assert isinstance(found.node, ast.ClassDef)
        for statement in found.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                fields[statement.target.id] = statement.value is None
        return Parameters(fields, {}, frozenset())

    def _text(self, module: str) -> str | None:
        base = module.replace(".", "/")
        for name in (f"{base}.py", f"{base}/__init__.py"):
            if self._archive is not None:
                if name in self._archive.NameToInfo:
                    return self._archive.read(name).decode()
            elif (self._folder / name).is_file():
                return (self._folder / name).read_text()
        return None

    def _base(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        up = node.level - (1 if self._is_package(module) else 0)
        parts = parts[: len(parts) - up] if up else parts
        return ".".join([*parts, *((node.module or "").split(".") if node.module else [])])

    def _is_package(self, module: str) -> bool:
        name = f"{module.replace('.', '/')}/__init__.py"
        if self._archive is not None:
            return name in self._archive.NameToInfo
        return (self._folder / name).is_file()

    def _expand(self, module: str, text: str) -> str:
        """A dotted name as a module writes it, through the module's imports."""
        head, _, rest = text.partition(".")
        for node in _statements(self.tree(module) or ast.Module([], [])):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == head:
                        return f"{self._base(module, node)}.{alias.name}" + (f".{rest}" if rest else "")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name.partition(".")[0]) == head:
                        return f"{alias.name if alias.asname else head}" + (f".{rest}" if rest else "")
        return f"{module}.{text}"


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module or class, also in `if` and `try`."""
    pending = list(tree.body)
    while pending:
        node = pending.pop(0)
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            pending = [*node.body, *node.orelse, *pending]


def _is_overload(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _passes_on(node: ast.FunctionDef) -> bool:
    """Whether a constructor passes its `**kwargs` to the constructor of a base class."""
    name = node.args.kwarg.arg if node.args.kwarg is not None else ""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == node.name
        ) and any(
            keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == name
            for keyword in call.keywords
        ):
            return True
    return False


def _of_arguments(arguments: ast.arguments, *, skip_first: bool) -> Parameters:
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = len(names) - len(arguments.defaults)
    positional = {name: index < required for index, name in enumerate(names)}
    if skip_first and names:
        del positional[names[0]]
    keyword_only = {
        argument.arg: default is None
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    takes = {mark for mark, node in (("*", arguments.vararg), ("**", arguments.kwarg)) if node is not None}
    return Parameters(positional, keyword_only, frozenset(takes))
