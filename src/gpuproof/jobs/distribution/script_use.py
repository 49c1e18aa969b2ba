"""Finds out from a script's code which ways of using several GPUs or hosts it is written for.

Reads the script and the modules next to it that it imports, and executes nothing. Calls and base classes count; a name that only
occurs in an import, a comment or an `isinstance` does not, except for MPI, which is initialised by its import.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpuproof.jobs.distribution.choose import ONE_PROCESS, STRATEGY, ScriptUse
from gpuproof.jobs.distribution.launchers import (
    MIRRORED,
    MPI,
    MULTI_WORKER_MIRRORED,
    NONE,
    PARAMETER_SERVER,
    TORCHRUN,
)

_MAX_FILES = 100
_MAX_BYTES = 1_000_000

_CALLS: tuple[tuple[str, str], ...] = (
    (r"torch\.distributed\.init_process_group|torch\.distributed\.device_mesh\.init_device_mesh", TORCHRUN),
    (r"torch\..*\b(DistributedDataParallel|FullyShardedDataParallel|fully_shard|init_device_mesh)", TORCHRUN),
    (r"apex\.parallel\.DistributedDataParallel", TORCHRUN),
    (r"accelerate\.Accelerator|accelerate\.accelerator\.Accelerator", TORCHRUN),
    (
        r"(pytorch_lightning|lightning(\.pytorch)?)\.(Trainer|trainer\.\w*\.?Trainer|cli\.LightningCLI)",
        TORCHRUN,
    ),
    (r"(lightning(\.fabric)?|lightning_fabric)\.Fabric", TORCHRUN),
    (r"(transformers|trl|sentence_transformers|peft|optimum\.\w+)\.(\w+\.)*\w*Trainer", TORCHRUN),
    (r"deepspeed\.(initialize|init_distributed)", TORCHRUN),
    (r"gpuproof\.runtime\.distributed", TORCHRUN),
    (r"tensorflow\.(\w+\.)*MirroredStrategy|keras\.distribution\.\w+", MIRRORED),
    (r"tensorflow\.(\w+\.)*(MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy)", MULTI_WORKER_MIRRORED),
    (r"tensorflow\.(\w+\.)*ParameterServerStrategy(V2)?", PARAMETER_SERVER),
    (r"gpuproof\.runtime\.strategy", STRATEGY),
    (r"torch\.multiprocessing\.(spawn|start_processes)|torch_xla\.(\w+\.)*(spawn|launch)", NONE),
    (r"accelerate\.notebook_launcher|torch\.distributed\.launcher\.(api\.)?elastic_launch", NONE),
    (r"jax\.distributed\.initialize", NONE),
    (r"torch\.nn(\.parallel)?\.DataParallel|jax\.pmap|keras\.utils\.multi_gpu_model", ONE_PROCESS),
)
"""Patterns of called names and base classes, and the launcher that they are written for; `none` launches processes itself."""

_IMPORTS: tuple[tuple[str, str], ...] = ((r"mpi4py(\..*)?", MPI), (r"horovod(\..*)?", MPI))
_OWN_LAUNCHERS = re.compile(
    r"(torchrun|mpirun|mpiexec|horovodrun|accelerate launch|deepspeed)(\s.*)?|torch\.distributed\.(run|launch)",
    re.DOTALL,
)
_LAUNCHER_VARIABLES = frozenset({"RANK", "WORLD_SIZE", "TF_CONFIG"})
_RUNTIME_KINDS = {
    "mirrored": MIRRORED,
    "multi-worker": MULTI_WORKER_MIRRORED,
    "parameter-server": PARAMETER_SERVER,
}
_SHORT = {
    "torch.distributed.init_process_group": "torch.distributed",
    "gpuproof.runtime.distributed": "gpuproof.runtime.distributed",
    "gpuproof.runtime.strategy": "gpuproof.runtime.strategy",
}


def find_uses(source_dir: Path, entry_point: str) -> tuple[ScriptUse, ...]:
    """Everything that the script and its own modules use, in the order in which it is found.

    Args:
        source_dir: the source folder.
        entry_point: path of the script below it; one that is not Python has no uses.
    """
    found: list[ScriptUse] = []
    for path, tree in _modules(source_dir, source_dir / entry_point):
        file = str(path.relative_to(source_dir)) if path.is_relative_to(source_dir) else path.name
        found += [ScriptUse(launcher, what, file) for launcher, what in _uses(tree)]
    return tuple(dict.fromkeys(found))


def _uses(tree: ast.Module) -> Iterator[tuple[str, str]]:
    names = _imported_names(tree)
    for name in dict.fromkeys(names.values()):
        for pattern, launcher in _IMPORTS:
            if re.fullmatch(pattern, name):
                yield launcher, f"uses {name.partition('.')[0]}"
    for node in ast.walk(tree):
        for name in _called_names(node, names):
            for pattern, launcher in _CALLS:
                if re.fullmatch(pattern, name):
                    verb = "starts its processes with" if launcher == NONE else "uses"
                    yield _launcher_of(node, launcher), f"{verb} {_SHORT.get(name, _plain(name))}"
        if not isinstance(node, ast.Call):
            continue
        if _has_own_ranks(node, names, tree):
            yield NONE, "computes its ranks itself"
        for text in _command_words(node):
            if _OWN_LAUNCHERS.fullmatch(text):
                yield NONE, f"starts {text.split()[0]}"
    if (variable := _sets_variable(tree)) is not None:
        yield NONE, f"sets {variable} itself"


def _launcher_of(node: ast.AST, launcher: str) -> str:
    """For `gpuproof.runtime.strategy(kind)`, the launcher of the kind."""
    if launcher != STRATEGY or not isinstance(node, ast.Call):
        return launcher
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "kind")]
    kind = given[0].value if given and isinstance(given[0], ast.Constant) else None
    return _RUNTIME_KINDS.get(kind, STRATEGY) if isinstance(kind, str) else STRATEGY


def _called_names(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Full names of what a node calls, inherits from, or passes on as a decorator."""
    nodes: list[ast.expr] = []
    if isinstance(node, ast.Call):
        nodes = [node.func]
    elif isinstance(node, ast.ClassDef):
        nodes = node.bases
    for item in nodes:
        name = _dotted(item, names)
        if name is not None:
            yield name


def _has_own_ranks(call: ast.Call, names: dict[str, str], tree: ast.Module) -> bool:
    """Whether a process group gets its ranks from SageMaker's list of hosts and not from a launcher."""
    if _dotted(call.func, names) != "torch.distributed.init_process_group":
        return False
    if all(keyword.arg != "rank" for keyword in call.keywords):
        return False
    texts = _texts(tree)
    return bool({"SM_HOSTS", "SM_CURRENT_HOST"} & texts) and not {"RANK", "LOCAL_RANK"} & texts


def _sets_variable(tree: ast.AST) -> str | None:
    """The variable of a launcher that a script sets in its environment, as scripts do that run once on each host.

    One that is set only if no launcher has set it (`if "RANK" not in os.environ`) does not count.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _LAUNCHER_VARIABLES & _texts(node.test):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.slice, ast.Constant)
                and target.slice.value in _LAUNCHER_VARIABLES
                and ast.unparse(target.value).endswith("environ")
            ):
                return str(target.slice.value)
        if (variable := _sets_variable(node)) is not None:
            return variable
    return None


def _texts(tree: ast.AST) -> set[str]:
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _command_words(call: ast.Call) -> Iterator[str]:
    """Texts that a call passes on, by themselves or in lists."""
    for argument in call.args:
        items = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]
        yield from (
            item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
        )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Full name behind each imported name, wherever in the file it is imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                local = name.asname or name.name.partition(".")[0]
                names[local] = name.name if name.asname else local
                if not name.asname and "." in name.name:
                    names.setdefault(name.name, name.name)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for name in node.names:
                names[name.asname or name.name] = f"{node.module}.{name.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    """The full name of `a.b.c`, with imports resolved; None for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    name = ".".join([names[node.id], *reversed(parts)])
    return "tensorflow." + name[len("tf.") :] if name.startswith("tf.") else name


def _plain(name: str) -> str:
    """The short form of a full name: `DistributedDataParallel`, `accelerate`."""
    root, _, last = name.rpartition(".")
    library = root.partition(".")[0]
    return last if library in ("torch", "tensorflow", "keras", "apex") else f"{library}.{last}"


def _modules(source_dir: Path, script: Path) -> Iterator[tuple[Path, ast.Module]]:
    """The script and its own modules, each parsed; files that cannot be read or parsed are left out."""
    pending, seen = [script], {script}
    while pending and len(seen) <= _MAX_FILES:
        path = pending.pop(0)
        tree = _parse(path)
        if tree is None:
            continue
        yield path, tree
        for other in _local_imports(tree, path, source_dir):
            if other not in seen:
                seen.add(other)
                pending.append(other)


def _parse(path: Path) -> ast.Module | None:
    try:
        if path.suffix != ".py" or path.stat().st_size > _MAX_BYTES:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _local_imports(tree: ast.Module, path: Path, source_dir: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _find(name.name, [path.parent, source_dir])
        elif isinstance(node, ast.ImportFrom):
            folders = [path.parent, source_dir]
            if node.level:
                parents = [path.parent, *path.parent.parents]
                folders = parents[node.level - 1 : node.level]
            prefix = f"{node.module}." if node.module else ""
            if node.module:
                yield from _find(node.module, folders)
            for name in node.names:
                yield from _find(f"{prefix}{name.name}", folders)


def _find(name: str, folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        base = folder.joinpath(*name.split("."))
        for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
            if path.is_file():
                yield path
                return
