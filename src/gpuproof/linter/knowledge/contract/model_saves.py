"""The calls of a script that save a model, and the paths that they save to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.values import Value

_FUNCTIONS = {
    "torch.save": ("f", 1),
    "torch.jit.save": ("f", 1),
    "torch.export.save": ("f", 1),
    "torch.onnx.export": ("f", 2),
    "safetensors.torch.save_file": ("filename", 1),
    "safetensors.torch.save_model": ("filename", 1),
    "tensorflow.saved_model.save": ("export_dir", 1),
    "keras.models.save_model": ("filepath", 1),
    "keras.saving.save_model": ("filepath", 1),
    "tensorflow.keras.models.save_model": ("filepath", 1),
    "tensorflow.keras.saving.save_model": ("filepath", 1),
    "tf_keras.models.save_model": ("filepath", 1),
    "joblib.dump": ("filename", 1),
    "sklearn.externals.joblib.dump": ("filename", 1),
    "pickle.dump": ("file", 1),
    "dill.dump": ("file", 1),
    "cloudpickle.dump": ("file", 1),
    "mlflow.pytorch.save_model": ("path", 1),
}
"""Functions that save a model, and the keyword and position of their path."""
_OF_ANYTHING = re.compile(r"^(sklearn\.externals\.)?joblib\.|^(pickle|dill|cloudpickle)\.")
"""Functions that also save other things: only what certainly is a model counts."""
_METHODS = {
    "save_pretrained": ("save_directory", 0),
    "save_checkpoint": ("filepath", 0),
    "save_model": (None, 0),
}
"""Methods of models and trainers, with the keyword and position of their path."""
_KERAS_METHODS = ("save", "export", "save_weights")
_KERAS_FILE = re.compile(r"\.(h5|hdf5|keras|tf|pb)$")
_MODEL_NAME = re.compile(
    r"^(\w*_)?(model|clf|classifier|regressor|estimator|booster|net|network|forest|svm|svc|gbm|xgb|lgbm)(_\w+)?$",
    re.IGNORECASE,
)
_MODEL_LIBRARIES = re.compile(
    r"^(sklearn\.(?!preprocessing|metrics|model_selection|feature)|xgboost\.|lightgbm\.|catboost\.)"
)
_NO_MODELS = re.compile(
    r"tokenizer|processor|feature_extractor|scaler|vectorizer|encoder$|config", re.IGNORECASE
)
_MAX_DEPTH = 5


class SavedPath(NamedTuple):
    """A path that a model is saved to.

    Attributes:
        text: the path, or its known beginning; never empty.
        is_whole: whether the text is the whole path.
        is_sure: whether no argument, variable or default of a parameter may replace it.
        value: its value, with its position where it is written.
    """

    text: str
    is_whole: bool
    is_sure: bool
    value: Value


def find_saves(module: Module, modules: Iterable[Module]) -> Iterator[tuple[Call, SavedPath]]:
    """The calls of a module that save a model to a path that is known, at least its beginning.

    Args:
        modules: the modules of the script: their calls of a function are the values of its parameters.
    """
    modules = list(modules)
    for call, node in _saves(module):
        if node is not None:
            for path in _paths(module, node, modules, 0):
                yield call, path


def _saves(module: Module) -> Iterator[tuple[Call, ast.expr | None]]:
    for call in calls_to(module, *_FUNCTIONS):
        keyword, position = _FUNCTIONS[call.name or ""]
        if not _OF_ANYTHING.search(call.name or "") or _is_any_model(module, call.expression("value", 0)):
            yield call, call.expression(keyword, position)
    for call in calls_named(module, *_METHODS):
        if call.receiver is None or call.name in _FUNCTIONS:
            continue
        made = module.origin(call.receiver)
        named = [call.receiver, *([made.func] if isinstance(made, ast.Call) else [])]
        if any(_NO_MODELS.search(module.text(node)) for node in named):
            continue
        if find_definition(module, call.node.func) is not None:
            continue
        keyword, position = _METHODS[call.method]
        written = call.expression(keyword, position) or next(
            (
                call.expression(name)
                for name in ("output_dir", "fname", "filename", "model_path")
                if name in call.keywords
            ),
            None,
        )
        if written is None and call.method == "save_model":
            written = _output_dir(module, call)
        yield call, written
    for call in calls_named(module, "save") if module.imports("torch") else ():
        made = origin_call(module, call.receiver)
        if made is not None and (made.name or "").startswith(("torch.jit.script", "torch.jit.trace")):
            yield call, call.expression("f", 0)
    if module.imports("tensorflow", "keras", "tf_keras"):
        for call in calls_named(module, *_KERAS_METHODS):
            if call.receiver is not None and call.name not in _FUNCTIONS and _is_keras_model(module, call):
                yield call, call.expression("filepath", 0)


def _output_dir(module: Module, call: Call) -> ast.expr | None:
    """Where `trainer.save_model()` saves: the `output_dir` of the Trainer's arguments."""
    trainer = origin_call(module, call.receiver)
    if trainer is None or not trainer.method.endswith("Trainer"):
        return None
    arguments = origin_call(module, trainer.expression("args", 1))
    if arguments is None or not arguments.method.endswith(("TrainingArguments", "Config")):
        return None
    return arguments.expression("output_dir", 0)


def _is_keras_model(module: Module, call: Call) -> bool:
    if call.receiver is not None and type_of(module, call.receiver).kind is TypeKind.KERAS_MODEL:
        return True
    origin = module.origin(call.receiver)
    if isinstance(origin, ast.Call) and (name := module.qualified(origin.func)):
        return name.startswith(("tensorflow.", "keras.", "tf_keras."))
    # The return value of a function in the file may be a model, depending on the file name.
    return bool(_KERAS_FILE.search(call.argument("filepath", 0).text or ""))


def _is_any_model(module: Module, node: ast.expr | None) -> bool:
    """Whether an object is certainly a model: by the library that made it, or by its name."""
    made = origin_call(module, node)
    while made is not None and made.method in ("fit", "partial_fit") and made.receiver is not None:
        made = origin_call(module, made.receiver)
    if made is not None and made.name is not None:
        return _MODEL_LIBRARIES.search(made.name) is not None
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return _MODEL_NAME.match(name) is not None and _NO_MODELS.search(name) is None


def _paths(module: Module, node: ast.expr, modules: list[Module], depth: int) -> Iterator[SavedPath]:
    """The values of a path, through open files, the first part of joined paths, and parameters of functions."""
    value = evaluate(module, node)
    if value.texts:
        for text in value.texts:
            if text:
                yield SavedPath(text, is_whole=True, is_sure=value.certainty == "known", value=value)
        return
    if value.prefix:
        yield SavedPath(value.prefix, is_whole=False, is_sure=True, value=value)
        return
    if depth > _MAX_DEPTH:
        return
    first = _first_part(module, node)
    if first is not None:
        for path in _paths(module, first, modules, depth + 1):
            yield path._replace(is_whole=False)
        return
    match node:
        case ast.Name():
            for binding in module.reaching(node):
                if binding.kind == "parameter":
                    yield from _of_parameter(module, binding, modules, depth)
                elif binding.kind in ("assign", "with") and binding.value is not None:
                    yield from _paths(module, binding.value, modules, depth + 1)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            for stored in _stored(module, node, name):
                yield from _paths(module, stored, modules, depth + 1)
        case ast.Attribute(attr=name):
            yield from _of_field(name, modules)
        case _:
            pass


def _first_part(module: Module, node: ast.expr) -> ast.expr | None:
    """The first part of a path that other parts are joined to, or the path of an open file."""
    match node:
        case ast.BinOp(left=left, op=ast.Div() | ast.Add()):
            return left
        case ast.JoinedStr(values=[ast.FormattedValue(value=value), *_]):
            return value
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.Starred):
            name = module.qualified(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")
            last = name.rpartition(".")[2]
            return first if last in ("open", "join", "Path", "str", "abspath") else None
        case ast.Call(func=ast.Attribute(value=receiver, attr="open" | "joinpath" | "as_posix" | "resolve")):
            return receiver
        case _:
            return None


def _of_parameter(module: Module, binding: Binding, modules: list[Module], depth: int) -> Iterator[SavedPath]:
    function = binding.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    owner = module.parent(function)
    bound = isinstance(owner, ast.ClassDef) and names[:1] == ["self"]
    called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    for other in modules:
        for call in calls_named(other, called):
            found = find_definition(other, call.node.func)
            if found is None or found.node not in (function, owner):
                continue
            position = names.index(binding.name) - bound if binding.name in names else None
            given = call.expression(binding.name, position)
            if given is not None:
                yield from _paths(other, given, modules, depth + 1)


def _stored(module: Module, node: ast.Attribute, name: str) -> list[ast.expr]:
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return []
    stores = [
        module.parent(other)
        for other in module.nodes(ast.Attribute)
        if other.attr == name and isinstance(other.ctx, ast.Store) and module.tree.is_within(other, owner)
    ]
    values = [
        store.value
        for store in stores
        if isinstance(store, (ast.Assign, ast.AnnAssign)) and store.value is not None
    ]
    return values if len(values) == len(stores) == 1 else []


def _of_field(name: str, modules: list[Module]) -> Iterator[SavedPath]:
    """The default of the only field of a class with this name, if nothing else sets it."""
    found = [
        (module, statement)
        for module in modules
        for statement in module.nodes(ast.AnnAssign)
        if isinstance(statement.target, ast.Name)
        and statement.target.id == name
        and isinstance(module.parent(statement), ast.ClassDef)
    ]
    if len(found) != 1:
        return
    module, statement = found[0]
    is_set = any(
        other.attr == name and isinstance(other.ctx, ast.Store)
        for each in modules
        for other in each.nodes(ast.Attribute)
    ) or any(name in call.keywords for each in modules for call in all_calls(each))
    value = evaluate(module, statement.value)
    if not is_set and value.text:
        yield SavedPath(value.text, is_whole=True, is_sure=False, value=value.as_default())
