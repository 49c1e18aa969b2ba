"""Generates `data/trainers.json`: parameters and hooks of Lightning, transformers, TRL and PEFT, by version.

    python tools/build_trainer_tables.py              download the wheels and write the table
    python tools/build_trainer_tables.py --keep DIR   keep the wheels in DIR for the next run

Requires `pip` and a package index. The wheels are read, never installed or imported. The table has the versions that were
read, and for each class its parameters (or methods, for classes that users derive from) with the first and the last of
these versions that has it; a parameter that all versions have is only named.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "src" / "gpuproof" / "linter" / "data" / "trainers.json"

LIGHTNING_1 = ("1.5.10", "1.6.5", "1.7.7", "1.8.6", "1.9.5")
LIGHTNING_2 = ("2.0.9", "2.1.4", "2.2.5", "2.3.3", "2.4.0", "2.5.6", "2.6.6")
TRANSFORMERS = (  # noqa: SIM905 - a long list reads better in lines
    "4.6.1 4.12.5 4.17.0 4.20.1 4.24.0 4.26.1 4.28.1 4.30.2 4.34.1 4.36.2 4.38.2 4.40.2 4.41.2 4.42.4 4.43.4 4.44.2 4.45.2 "
    "4.46.3 4.47.1 4.48.3 4.49.0 4.50.3 4.51.3 4.52.4 4.53.3 4.54.1 4.55.4 4.56.2 4.57.6 5.0.0 5.6.2 5.12.1 5.24.0"
).split()
TRL = (  # noqa: SIM905 - as above
    "0.7.11 0.8.6 0.9.6 0.11.4 0.12.2 0.13.0 0.14.0 0.15.2 0.16.1 0.17.0 0.18.2 0.19.1 0.20.0 0.21.0 0.22.2 0.23.1 0.24.0 "
    "0.25.1 0.26.2 0.27.2 0.28.0 0.29.1 1.0.0 1.8.0 1.16.0"
).split()
OTHER_HOOKS = (
    "optimizer_step",
    "optimizer_zero_grad",
    "lr_scheduler_step",
    "setup",
    "teardown",
    "prepare_data",
)
PEFT = (
    "0.4.0",
    "0.6.2",
    "0.8.2",
    "0.10.0",
    "0.12.0",
    "0.14.0",
    "0.15.2",
    "0.16.0",
    "0.17.1",
    "0.18.1",
    "0.21.2",
)


@dataclass(frozen=True)
class Library:
    """What is read of one library.

    Args:
        releases: the requirement of each version, oldest first.
        parts: parts of paths in the wheel; only files with one of them are read.
        signatures: classes whose `__init__` or fields are read, and methods as `Trainer.fit`.
        hooks: classes whose methods are read.
    """

    releases: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    signatures: tuple[str, ...]
    hooks: tuple[str, ...] = ()


LIBRARIES = {
    "lightning": Library(
        (
            *((version, f"pytorch-lightning=={version}") for version in LIGHTNING_1),
            *((version, f"lightning=={version}") for version in LIGHTNING_2),
        ),
        (
            "pytorch_lightning/trainer/",
            "pytorch_lightning/core/",
            "pytorch_lightning/callbacks/",
            "lightning/pytorch/trainer/",
            "lightning/pytorch/core/",
            "lightning/pytorch/callbacks/",
        ),
        (
            "Trainer",
            "Trainer.fit",
            "Trainer.validate",
            "Trainer.test",
            "Trainer.predict",
            "ModelCheckpoint",
            "EarlyStopping",
        ),
        ("LightningModule", "LightningDataModule", "Callback", "Trainer"),
    ),
    "transformers": Library(
        tuple((version, f"transformers=={version}") for version in TRANSFORMERS),
        ("transformers/trainer", "transformers/training_args"),
        ("TrainingArguments", "Seq2SeqTrainingArguments", "Trainer", "Seq2SeqTrainer"),
    ),
    "trl": Library(
        tuple((version, f"trl=={version}") for version in TRL),
        ("trl/trainer/",),
        (
            "SFTConfig",
            "DPOConfig",
            "GRPOConfig",
            "RewardConfig",
            "SFTTrainer",
            "DPOTrainer",
            "GRPOTrainer",
            "RewardTrainer",
        ),
    ),
    "peft": Library(
        tuple((version, f"peft=={version}") for version in PEFT),
        ("peft/tuners/lora/config.py", "peft/tuners/lora.py", "peft/config.py", "peft/utils/config.py"),
        ("LoraConfig",),
    ),
}
"""The trainers and their arguments. A dataclass of TRL also has the parameters of `TrainingArguments`."""


@dataclass
class Members:
    """The parameters or methods of a class in one version.

    Args:
        open: whether it also takes parameters that are not listed: `**kwargs`.
        arguments: what each method gets, for those that get a fixed list.
    """

    names: list[str] = field(default_factory=list[str])
    open: bool = False
    arguments: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def main() -> int:
    """Download, read, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder of the wheels; created if missing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        libraries = {name: table(library, folder) for name, library in LIBRARIES.items()}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = {
        "source": "the wheels of these versions on PyPI, read by tools/build_trainer_tables.py",
        "as_of": today,
    }
    OUTPUT.write_text(format_table({**head, "libraries": libraries}), encoding="utf-8")
    return 0


def table(library: Library, folder: Path) -> dict[str, object]:
    """The versions of a library, and the lifetime of each parameter and hook."""
    read = [read_wheel(fetch(requirement, folder), library) for _, requirement in library.releases]
    classes: dict[str, dict[str, object]] = {}
    for name in (*library.signatures, *map(hooks_key, library.hooks)):
        present = [index for index, found in enumerate(read) if name in found]
        members: dict[str, list[int] | None] = {}
        for index in present:
            for member in read[index][name].names:
                lifetime = members.setdefault(member, [index, index])
                if lifetime is not None:
                    lifetime[1] = index
        whole = [0, len(read) - 1]
        classes[name] = {
            "exists": [present[0], present[-1]],
            "open": [index for index in present if read[index][name].open],
            "members": {member: None if life == whole else life for member, life in members.items()},
        }
        if read[-1][name].arguments:
            classes[name]["arguments"] = read[-1][name].arguments
    return {"versions": [version for version, _ in library.releases], "classes": classes}


def hooks_key(name: str) -> str:
    """The name under which the methods of a class are stored: `Trainer` itself has the parameters of its constructor."""
    return f"{name}.methods" if name == "Trainer" else name


def fetch(requirement: str, folder: Path) -> Path:
    """The wheel of a requirement; downloaded if the folder does not have it."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, requirement, "--dest", str(folder)], check=True)
    return next(folder.glob(pattern))


def read_wheel(wheel: Path, library: Library) -> dict[str, Members]:
    """The members of the wanted classes of one version."""
    classes: dict[str, ast.ClassDef] = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if path.endswith(".py") and any(path.startswith(part) for part in library.parts):
                for node in ast.walk(ast.parse(archive.read(path))):
                    if isinstance(node, ast.ClassDef):
                        classes.setdefault(node.name, node)
    found: dict[str, Members] = {}
    for name in library.signatures:
        owner, _, method = name.partition(".")
        if owner in classes:
            members = of_method(classes, owner, method) if method else of_constructor(classes, owner)
            if members.names:
                found[name] = members
    for name in library.hooks:
        if name in classes:
            arguments = hook_arguments(classes, name) if name != "Trainer" else {}
            found[hooks_key(name)] = Members(sorted(public_methods(classes, name)), False, arguments)
    return found


def of_constructor(classes: dict[str, ast.ClassDef], name: str) -> Members:
    """The parameters of `__init__`, or the fields of a dataclass with those of its base classes."""
    if find_method(classes, name, "__init__") is not None:
        return of_method(classes, name, "__init__")
    members = Members()
    for owner in reversed(list(ancestry(classes, name))):
        for statement in owner.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            field_name = statement.target.id
            if "ClassVar" in ast.unparse(statement.annotation) or is_no_parameter(statement.value):
                continue
            if not field_name.startswith("_n_gpu") and field_name not in members.names:
                members.names.append(field_name)
    return members


def is_no_parameter(value: ast.expr | None) -> bool:
    """Whether a field is `field(init=False)`."""
    return isinstance(value, ast.Call) and any(
        keyword.arg == "init" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in value.keywords
    )


def of_method(classes: dict[str, ast.ClassDef], owner: str, method: str) -> Members:
    """The parameters of a method, without `self`; parameters that a decorator maps to others are kept as well."""
    function = find_method(classes, owner, method)
    if function is None:
        return Members()
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for decorator in function.decorator_list:
        # transformers: @deprecate_kwarg("tokenizer", new_name="processing_class", version="5.0.0")
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("deprecate_kwarg"):
            old = decorator.args[0] if decorator.args else None
            if isinstance(old, ast.Constant) and isinstance(old.value, str):
                names.append(old.value)
    return Members(names[1:], arguments.kwarg is not None)


def find_method(
    classes: dict[str, ast.ClassDef], owner: str, method: str
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """A method of a class or of its base classes."""
    for node in ancestry(classes, owner):
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == method:
                return statement
    return None


def public_methods(classes: dict[str, ast.ClassDef], owner: str) -> set[str]:
    """The methods without an underscore of a class and its base classes."""
    return {
        statement.name
        for node in ancestry(classes, owner)
        for statement in node.body
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not statement.name.startswith("_")
    }


def hook_arguments(classes: dict[str, ast.ClassDef], owner: str) -> dict[str, list[str]]:
    """What Lightning passes to each hook of a class: the parameters of its own definition, without `self`."""
    found: dict[str, list[str]] = {}
    for name in sorted(public_methods(classes, owner)):
        function = find_method(classes, owner, name)
        if function is None or not (name.startswith(("on_", "configure_")) or name in OTHER_HOOKS):
            continue
        arguments = function.args
        if not arguments.vararg and not arguments.kwarg:
            names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
            found[name] = names[1:]
    return found


def ancestry(classes: dict[str, ast.ClassDef], name: str) -> Iterator[ast.ClassDef]:
    """A class and its base classes in the wheel, the class first."""
    pending, seen = [name], set[str]()
    while pending:
        current = pending.pop(0)
        if current not in classes or current in seen:
            continue
        seen.add(current)
        yield classes[current]
        pending += [ast.unparse(base).rpartition(".")[2] for base in classes[current].bases]


def format_table(document: dict[str, object]) -> str:
    """JSON with a line for each class."""
    libraries = document["libraries"]
    assert isinstance(libraries, dict)
    lines = ["{"]
    lines += [f" {json.dumps(key)}: {json.dumps(document[key])}," for key in ("source", "as_of")]
    lines.append(' "libraries": {')
    for number, (name, content) in enumerate(libraries.items(), 1):
        lines.append(f"  {json.dumps(name)}: {{")
        lines.append(f'   "versions": {json.dumps(content["versions"])},')
        lines.append('   "classes": {')
        rows = [
            f"    {json.dumps(owner)}: {json.dumps(members, separators=(',', ':'))}"
            for owner, members in content["classes"].items()
        ]
        lines.append(",\n".join(rows))
        lines += ["   }", "  }" + ("," if number < len(libraries) else "")]
    return "\n".join([*lines, " }", "}", ""])


if __name__ == "__main__":
    sys.exit(main())
