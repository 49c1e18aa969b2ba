"""The values of settings files that a script loads with a path known in the project: YAML, JSON, TOML and INI files."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuproof.linter.analysis.evaluation.own_paths import OwnPath
from gpuproof.linter.analysis.evaluation.settings_text import (
    FORMATS,
    Format,
    as_default,
    overlay,
    read_settings_text,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import argument_node, callee_name
from gpuproof.linter.analysis.values import UNKNOWN, Value
from gpuproof.linter.source.project_root import launch_folders
from gpuproof.linter.source.span import Unit

Evaluate = Callable[[ast.expr], Value]

_LOADERS: dict[str, Format] = {
    "yaml.safe_load": "yaml",
    "yaml.load": "yaml",
    "yaml.full_load": "yaml",
    "yaml.unsafe_load": "yaml",
    "ruamel.yaml.safe_load": "yaml",
    "omegaconf.OmegaConf.load": "omegaconf",
    "json.load": "json",
    "json.loads": "json",
    "ujson.load": "json",
    "simplejson.load": "json",
    "orjson.loads": "json",
    "tomllib.load": "toml",
    "tomllib.loads": "toml",
    "tomli.load": "toml",
    "tomli.loads": "toml",
    "toml.load": "toml",
    "toml.loads": "toml",
}
"""Functions that load a settings file, from a stream, a text or a path."""
NAMESPACES = frozenset(
    [
        "omegaconf.OmegaConf.create",
        "omegaconf.OmegaConf.to_container",
        "omegaconf.DictConfig",
        "types.SimpleNamespace",
        "argparse.Namespace",
        "easydict.EasyDict",
        "box.Box",
        "munch.Munch",
        "munch.munchify",
        "addict.Dict",
        "dotmap.DotMap",
        "ml_collections.ConfigDict",
        "ml_collections.config_dict.ConfigDict",
    ]
)
"""Classes and functions that make an object with the entries of a mapping."""
_SAME_PATH = frozenset(
    [
        "os.path.abspath",
        "os.path.realpath",
        "os.fspath",
        "str",
        "pathlib.Path",
        "pathlib.PurePath",
        "open",
        "io.open",
        "codecs.open",
    ]
)
_SAME_METHODS = frozenset(
    [
        "resolve",
        "absolute",
        "as_posix",
        "open",
        "read",
        "read_text",
        "read_bytes",
        "expanduser",
        "decode",
    ]
)
_CODE = "/opt/ml/code/"
"""The folder of the script in a SageMaker container."""
_MAX_DEPTH = 12


def loaded_settings(module: Module, node: ast.Call, name: str, evaluate: Evaluate) -> Value | None:
    """The value of a call that loads or merges settings; None for any other call.

    Args:
        name: the qualified name of the function.
        evaluate: the value of an expression of the module.
    """
    if name == "omegaconf.OmegaConf.merge":
        values = [evaluate(argument) for argument in node.args]
        return overlay(*values) if values and values[0].entries is not None else UNKNOWN
    kind = _LOADERS.get(name) or ("yaml" if _is_ruamel(module, node) else None)
    if kind is None:
        return None
    return settings_at(module, argument_node(node, position=0), evaluate, kind)


def loaded_file(
    module: Module, node: ast.Call, name: str, evaluate: Evaluate
) -> tuple[Unit, Format, bool] | None:
    """The settings file that a call loads, its format by the loader, and whether it is certainly this file."""
    kind = _LOADERS.get(name) or ("yaml" if _is_ruamel(module, node) else None)
    path = argument_node(node, position=0)
    found = _find(module, path, evaluate, 0) if kind is not None and path is not None else None
    unit = module.loader.settings_file(found[0]) if found is not None else None
    return (unit, kind, found[1]) if unit is not None and kind is not None and found is not None else None


def settings_at(
    module: Module, path: ast.expr | None, evaluate: Evaluate, kind: Format | None = None
) -> Value:
    """The value of the settings file that an expression names, or that the stream of an expression reads."""
    found = _find(module, path, evaluate, 0) if path is not None else None
    if found is None:
        return UNKNOWN
    file, is_certain = found
    value = read_settings_file(module, file, kind)
    return value if is_certain else as_default(value)


def _is_ruamel(module: Module, node: ast.Call) -> bool:
    """Whether a call is `load` of ruamel's `YAML()`."""
    if callee_name(node) != "load" or not isinstance(node.func, ast.Attribute):
        return False
    made = module.origin(node.func.value)
    return isinstance(made, ast.Call) and (module.qualified(made.func) or "").endswith("yaml.YAML")


def read_settings_file(module: Module, path: Path, kind: Format | None) -> Value:
    """The value of a settings file of the project; unknown if there is none.

    Args:
        kind: how it is read if its suffix does not say so, and `omegaconf` for the YAML of OmegaConf.
    """
    unit = module.loader.settings_file(path)
    form = FORMATS.get(path.suffix.lower()) or kind
    if form == "yaml" and kind == "omegaconf":
        form = kind
    if unit is None or form is None:
        return UNKNOWN
    chosen: Format = form
    return module.loader.cached(f"settings as {form}", unit, lambda: read_settings_text(unit, chosen))


def _find(module: Module, node: ast.expr, evaluate: Evaluate, depth: int) -> tuple[Path, bool] | None:
    """The file that an expression names, and whether it is certainly this one."""
    written = _file_of(module, node, evaluate, depth)
    if written is None:
        return None
    text, is_certain = written
    text = text.removeprefix(_CODE)
    path = Path(text)
    if path.suffix.lower() not in FORMATS:
        return None
    if path.is_absolute():
        inside = any(path.is_relative_to(folder) for folder in launch_folders(module.unit.absolute))
        return (path, is_certain) if inside else None
    for folder in launch_folders(module.unit.absolute):
        if module.loader.settings_file(folder / path) is not None:
            return folder / path, is_certain
    return None


def _file_of(module: Module, node: ast.expr, evaluate: Evaluate, depth: int) -> tuple[str, bool] | None:
    """The path in an expression for a path, a stream of a file or its text, through the module's own `__file__`."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Name) and node.id == "__file__":
        return str(module.unit.absolute), True
    value = evaluate(node)
    if isinstance(value.text, OwnPath):
        return posixpath.normpath(module.unit.absolute.parent / value.text), value.is_known
    if value.text is not None and "\n" not in value.text and len(value.text) < 1000:
        return value.text, value.is_known

    def inner(expression: ast.expr) -> tuple[str, bool] | None:
        return _file_of(module, expression, evaluate, depth + 1)

    match node:
        case ast.Name():
            made = module.origin(node)
            return inner(made) if made is not None and made is not node else None
        case ast.Attribute(value=holder, attr="parent"):
            return _parent(inner(holder))
        case ast.Subscript(
            value=ast.Attribute(value=holder, attr="parents"), slice=ast.Constant(value=int(n))
        ):
            found = inner(holder)
            for _ in range(min(n, _MAX_DEPTH) + 1):
                found = _parent(found)
            return found
        case ast.BinOp(op=ast.Div() | ast.Add(), left=left, right=right):
            return _joined(inner(left), [evaluate(right)], "" if isinstance(node.op, ast.Add) else "/")
        case ast.JoinedStr(values=[ast.FormattedValue(value=first), *rest]):
            return _joined(inner(first), [evaluate(part) for part in rest], "")
        case ast.Call():
            return _file_of_call(module, node, evaluate, inner)
        case _:
            return None


def _file_of_call(
    module: Module,
    node: ast.Call,
    evaluate: Evaluate,
    inner: Callable[[ast.expr], tuple[str, bool] | None],
) -> tuple[str, bool] | None:
    name = module.qualified(node.func) or callee_name(node)
    if name in ("os.path.join", "posixpath.join") and node.args:
        return _joined(inner(node.args[0]), [evaluate(part) for part in node.args[1:]], "/")
    if name == "os.path.dirname" and node.args:
        return _parent(inner(node.args[0]))
    if name in _SAME_PATH and node.args:
        return _joined(
            inner(node.args[0]), [evaluate(part) for part in node.args[1:]] if "Path" in name else [], "/"
        )
    if isinstance(node.func, ast.Attribute) and callee_name(node) in _SAME_METHODS:
        return inner(node.func.value)
    if isinstance(node.func, ast.Attribute) and callee_name(node) == "joinpath":
        return _joined(inner(node.func.value), [evaluate(part) for part in node.args], "/")
    return None


def _joined(first: tuple[str, bool] | None, parts: list[Value], between: str) -> tuple[str, bool] | None:
    if first is None or any(part.text is None for part in parts):
        return None
    text = between.join([first[0], *(str(part.text) for part in parts)])
    return text, first[1] and all(part.is_known for part in parts)


def _parent(found: tuple[str, bool] | None) -> tuple[str, bool] | None:
    return (str(Path(found[0]).parent), found[1]) if found is not None else None


def _constant(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def option_default(module: Module, parameter: Binding) -> ast.expr | None:
    """The default of a parameter that `@click.option("--name", default=...)` passes; None without one."""
    function = parameter.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    for call in _options(module, function):
        names = [
            text.lstrip("-").replace("-", "_") for node in call.args if (text := _constant(node)) is not None
        ]
        if parameter.name in names:
            return argument_node(call, "default")
    return None


def _options(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and (module.qualified(decorator.func) or "").startswith("click."):
            yield decorator
