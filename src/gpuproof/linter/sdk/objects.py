"""The SDK classes of expressions, through variables, attributes of `self` and the methods that made them, and their attributes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, local_function
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.sdk.changes import rows_of
from gpuproof.linter.sdk.tables import v2, v3

_MAX_DEPTH = 8
_ESTIMATOR, _MODEL = "sagemaker.estimator.EstimatorBase", "sagemaker.model.ModelBase"
_MADE_BY_V2 = {
    (_ESTIMATOR, "deploy"): "sagemaker.base_predictor.Predictor",
    (_MODEL, "deploy"): "sagemaker.base_predictor.Predictor",
    ("sagemaker.tuner.HyperparameterTuner", "deploy"): "sagemaker.base_predictor.Predictor",
    (_ESTIMATOR, "transformer"): "sagemaker.transformer.Transformer",
    (_MODEL, "transformer"): "sagemaker.transformer.Transformer",
    (_ESTIMATOR, "create_model"): _MODEL,
}
"""What methods of sagemaker v2, which have no annotations, return; the object may be of a class below."""


@dataclass(frozen=True)
class SdkObjects:
    """The possible classes of an object, by the name at their definition.

    Args:
        major: of the SDK that has these classes.
        below: whether it may be of a class that inherits from one of them.
    """

    major: int
    classes: tuple[str, ...]
    below: bool = False

    @property
    def name(self) -> str:
        """The name of the class for messages."""
        return " or ".join(path.rpartition(".")[2] for path in self.classes)

    def has(self, attribute: str) -> bool | None:
        """Whether such an object has a public attribute; None if a class is not in the table."""
        answers = [
            _attributes(self.major).get(path)
            for path in (*self.classes, *(self._subclasses() if self.below else ()))
        ]
        if any(names is None for names in answers[: len(self.classes)]):
            return None
        return any(attribute in names for names in answers if names is not None)

    def names(self) -> frozenset[str]:
        """The public attributes of all of its classes."""
        found = [_attributes(self.major).get(path, frozenset[str]()) for path in self.classes]
        return frozenset[str]().union(*found)

    def instead(self, attribute: str) -> str | None:
        """What replaces an attribute that only the other version's object has."""
        rows = _instead()
        for path in self.classes:
            for near in (path, *_ancestors(self.major, path)):
                if found := rows.get((self.major, near, attribute)):
                    return found
        return None

    def _subclasses(self) -> list[str]:
        return [
            path
            for path in _attributes(self.major)
            if any(near in self.classes for near in _ancestors(self.major, path))
        ]


def sdk_objects(
    module: Module, node: ast.expr | None, major: int | None, depth: int = 0
) -> SdkObjects | None:
    """The SDK classes of an expression; None if it is no object of the SDK, or if that is not certain."""
    if node is None or depth > _MAX_DEPTH:
        return None
    match node:
        case ast.Call():
            return _of_call(Call(node, module), major, depth)
        case ast.Name():
            bindings = module.reaching(node)
            values = [binding.value for binding in bindings if binding.kind == "assign"]
            if not values or len(values) != len(bindings):
                return None
            return _common([sdk_objects(module, value, major, depth + 1) for value in values])
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return _common(
                [sdk_objects(module, value, major, depth + 1) for value in _stored(module, node, name)]
            )
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return sdk_objects(module, value, major, depth + 1)
        case _:
            return None


def _of_call(call: Call, major: int | None, depth: int) -> SdkObjects | None:
    name = call.name or ""
    if name.startswith("sagemaker."):
        return _created(name, major) or _from_class_method(name, major)
    if call.receiver is not None:
        behind = sdk_objects(call.module, call.receiver, major, depth + 1)
        if behind is None or _returns_other_predictor(call, behind):
            return None
        return _returned(behind, call.method)
    function = local_function(call)
    if function is None:
        return None
    returned = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and call.module.function_of(node) is function
    ]
    return _common([sdk_objects(call.module, value, major, depth + 1) for value in returned])


def _returns_other_predictor(call: Call, behind: SdkObjects) -> bool:
    """Whether `deploy` of v2 may return an AsyncPredictor, or an object of a class that the script names."""
    if behind.major != 2 or call.method != "deploy":
        return False
    own = any("predictor_cls" in other.keywords for other in all_calls(call.module))
    return own or not call.argument("async_inference_config").is_absent


def _created(name: str, major: int | None) -> SdkObjects | None:
    if not name.rpartition(".")[2][:1].isupper():
        return None
    known = [(number, sdk.definition(name)) for number, sdk in ((2, v2()), (3, v3())) if sdk.has(name)]
    if major is not None:
        known = [entry for entry in known if entry[0] == major]
    # A name that both versions have is of either one.
    if len(known) != 1 or known[0][1] not in _attributes(known[0][0]):
        return None
    return SdkObjects(known[0][0], (known[0][1],))


def _from_class_method(name: str, major: int | None) -> SdkObjects | None:
    """`ModelTrainer.from_recipe(...)`, `TrainingJob.get(...)`."""
    owner, _, method = name.rpartition(".")
    behind = _created(owner, major)
    return _returned(behind, method) if behind is not None else None


def _returned(behind: SdkObjects, method: str) -> SdkObjects | None:
    for path in behind.classes:
        for near in (path, *_ancestors(behind.major, path)):
            if behind.major == 2 and (made := _MADE_BY_V2.get((near, method))):
                return SdkObjects(2, (made,), below=True)
            if made := _returns(behind.major).get((near, method)):
                return SdkObjects(behind.major, tuple(made.split("|")))
    return None


def _stored(module: Module, node: ast.Attribute, name: str) -> list[ast.expr | None]:
    """The values that the class around `self.name` assigns to it; a None for each that is not known."""
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return [None]
    values: list[ast.expr | None] = []
    for other in module.nodes(ast.Attribute):
        if other.attr == name and isinstance(other.ctx, ast.Store) and module.tree.is_within(other, owner):
            statement = module.parent(other)
            value = (
                statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
            )
            if not (isinstance(value, ast.Constant) and value.value is None):
                values.append(value)
    return values


def _common(found: list[SdkObjects | None]) -> SdkObjects | None:
    first = found[0] if found else None
    return first if all(other == first for other in found) else None


@cache
def _attributes(major: int) -> dict[str, frozenset[str]]:
    """Public attributes by class, inherited ones included."""
    rows = {row["class"]: row for row in rows_of("attributes") if row["sdk"] == f"v{major}"}

    def names(path: str) -> frozenset[str]:
        row = rows[path]
        inherited = names(row["base"]) if row["base"] in rows else frozenset[str]()
        return inherited | frozenset(row["names"].split())

    # A base that is not in the table may have any attribute.
    return {path: names(path) for path, row in rows.items() if not row["base"] or row["base"] in rows}


@cache
def _bases(major: int) -> dict[str, str]:
    return {row["class"]: row["base"] for row in rows_of("attributes") if row["sdk"] == f"v{major}"}


def _ancestors(major: int, path: str) -> list[str]:
    found: list[str] = []
    while (path := _bases(major).get(path, "")) and path not in found:
        found.append(path)
    return found


@cache
def _returns(major: int) -> dict[tuple[str, str], str]:
    """The classes, joined by `|`, of what a method returns."""
    rows = (row for row in rows_of("attributes") if row["sdk"] == f"v{major}")
    return {
        (row["class"], method): made
        for row in rows
        for method, _, made in (word.partition("=") for word in row["returns"].split())
    }


@cache
def _instead() -> dict[tuple[int, str, str], str]:
    return {(int(row["sdk"][1]), row["class"], row["name"]): row["instead"] for row in rows_of("sdk_methods")}


def is_probed(module: Module, attribute: str) -> bool:
    """Whether the module asks for the attribute first: `hasattr(trainer, "fit")`."""
    return any(
        isinstance(argument, ast.Constant) and argument.value == attribute
        for call in calls_named(module, "hasattr", "getattr")
        for argument in call.node.args
    )
