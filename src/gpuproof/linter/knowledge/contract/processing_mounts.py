"""The folders that a processing job mounts, and their use in its script."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to, local_function
from gpuproof.linter.analysis.container_env import PROCESSING_DIR
from gpuproof.linter.analysis.evaluation.evaluate import command_line, evaluate
from gpuproof.linter.analysis.flow.value_flow import Arrival, follow
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import find_uses, is_message, uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.programs import starts_program

OWN_MOUNTS = (
    f"{PROCESSING_DIR}/input/code",
    f"{PROCESSING_DIR}/input/entrypoint",
    f"{PROCESSING_DIR}/input/conf",
    f"{PROCESSING_DIR}/input/config",
    f"{PROCESSING_DIR}/input/jars",
    f"{PROCESSING_DIR}/input/py-files",
)
"""Folders that processors of SDK v2 mount themselves: the script, its folder, and files of Spark."""

_WRITES = re.compile(
    r"""
    save | dump | ^to_ | write | copy | move | download | extract | export | rename | replace$ | unpack | tofile | sink
    | ^put | ^fit | ^run$ | ^call$ | check_call | check_output | Popen | system | split | ^main | persist | store | cp$
    | unload | publish | create | render | plot | report
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Names of methods and functions that may write a file."""

PATH_CARRIERS = re.compile(
    r"(^|\.)(join|joinpath|Path|PurePath|PosixPath|str|fspath|abspath|realpath|normpath|expanduser|expandvars|dirname|getenv"
    r"|get|environ|resolve|absolute|as_posix|with_suffix|with_name|format|strip|rstrip|lstrip|replace|removesuffix|removeprefix"
    r"|field|Option|Field|Argument|text|decode|encode|loads)$"
)
"""Calls whose result is a path made of the path that they receive."""
_KEEPS_NOTHING = re.compile(
    r"(^|\.)(makedirs|mkdir|exists|isdir|isfile|is_dir|is_file|rmtree|remove|unlink|rmdir|len|isinstance|type|int|float|bool"
    r"|startswith|endswith|lower|upper|stat|getsize|disk_usage|access|setdefault|client|resource|Session)$"
)
"""Calls that neither read nor write the files of a folder that they receive."""
_LISTS = re.compile(r"(^|\.)(listdir|scandir|walk|glob|iglob|rglob|iterdir)$")
_READS = re.compile(
    r"(^|\.)(load|load_\w+|loadtxt|genfromtxt|from_pretrained|read|read_\w+|fromfile|imread)$"
)
_VARIABLES_WITHOUT_PATHS = re.compile(
    r"^(AWS_|CUDA_|NVIDIA_|NCCL_|OMP_|MKL_|TF_|PYTHON|PYTORCH_|TOKENIZERS_|LOG|DEBUG|USER$|(LOCAL_)?RANK$|WORLD_SIZE$|MASTER_)"
)
_ENVIRONMENT_CALLS = (
    "os.getenv",
    *(f"os.environ.{name}" for name in ("get", "pop", "copy", "items", "values")),
)
_OTHER_COMMAND_LINES = re.compile(r"^(click|typer|fire|absl|docopt|optparse|getopt|tyro|hydra|omegaconf)\b")


def mounted_folders(job: JobDefinition) -> list[str] | None:
    """The folders of all inputs and outputs of a job; None if one of them is unknown."""
    if job.inputs is None or job.outputs is None:
        return None
    paths = [output.path for output in (*job.inputs, *job.outputs)]
    if not all(path.is_known and path.text for path in paths):
        return None
    return [str(path.text).rstrip("/") for path in paths]


def is_under(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def may_write(module: Module) -> bool:
    """Whether a module calls something that may write a file, by name; creating folders does not count."""
    return any(_writes(call) for call in all_calls(module))


def _writes(call: Call) -> bool:
    if call.method == "open":
        return may_open_to_write(call)
    return bool(_WRITES.search(call.method)) and local_function(call) is None


def may_open_to_write(call: Call) -> bool:
    """Whether a call of `open` may open a file to write."""
    mode = call.argument("mode", 1 if call.receiver is None else 0)
    return not mode.is_absent and (mode.text is None or bool(set(mode.text) & set("wax+")))


def may_write_to(modules: list[Module], folder: str, environment: Value) -> bool:
    """Whether a script may write files to a folder: a call that may write gets its path, or a path that is unknown."""
    return any(not _only_reads(place) for place in _places(modules, folder, environment))


def may_read_from(modules: list[Module], folder: str, environment: Value) -> bool:
    """Whether a script may read files of a folder: a call gets its path, or a path that is unknown."""
    if any(starts_program(call) for module in modules for call in all_calls(module)):
        return True
    if any(_imports_from_anywhere(module) for module in modules):
        return True
    reads = any(_READS.search(call.name or call.method) for module in modules for call in all_calls(module))
    return any(
        # A printed list of files is for the developer, unless the script does nothing else.
        not (reads and place.call is not None and _is_printed_list(place.module, place.call))
        for place in _places(modules, folder, environment)
    )


def _places(modules: list[Module], folder: str, environment: Value) -> Iterator[Arrival]:
    """The places that may get the path of a folder and do something with its files."""
    starts: list[tuple[Module, ast.expr]] = []
    for module in modules:
        nodes = [use.node for use in find_uses(module, "string") if _may_name(use.text, folder)]
        starts += [
            (module, node)
            for node in (*nodes, *_unknown_paths(module, environment))
            if isinstance(node, ast.expr)
        ]
        if uses(module, _OTHER_COMMAND_LINES, "name", "call"):
            yield Arrival(module, module.tree.root, None)
    for place in follow(modules, starts, _carries):
        if is_message(place.module, place.node):
            continue
        if not _is_elsewhere(place, folder) and not _keeps_nothing(place):
            yield place


def _may_name(text: str, folder: str) -> bool:
    """Whether a text is a folder, a path in it, a parent of it, or the last part of its path: `output` in `base / "output"`."""
    parts = folder.rstrip("/").split("/")
    above = {"/".join(parts[:end]) for end in range(2, len(parts))}
    return folder in text or parts[-1] in text.split("/") or text.rstrip("/") in above


def _unknown_paths(module: Module, environment: Value) -> Iterator[ast.AST]:
    """The expressions that may hold a path that is not written in the script."""
    for node in module.nodes(ast.Attribute, ast.Name):
        if isinstance(node.ctx, ast.Load) and module.qualified(node) == "sys.argv":
            yield node
        elif isinstance(node, ast.Attribute) and module.qualified(node) == "os.environ":
            parent = module.parent(node)
            if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load):
                if _may_hold_path(evaluate(module, parent.slice), environment):
                    yield parent
            elif not isinstance(parent, (ast.Attribute, ast.Subscript, ast.Compare)):
                yield node
    for call in all_calls(module):
        by_name = call.name in _ENVIRONMENT_CALLS
        if by_name and _may_hold_path(call.argument("key", 0), environment):
            yield call.node
    for argument in command_line(module).arguments:
        if (
            argument.value.text is None
            and argument.action in (None, "store")
            and argument.type not in ("int", "float")
        ):
            yield from (
                node
                for node in module.nodes(ast.Attribute)
                if node.attr == argument.dest and isinstance(node.ctx, ast.Load)
            )


def _may_hold_path(name: Value, environment: Value) -> bool:
    if name.text is None:
        return True
    entries = environment.entries
    if entries is not None and name.text in entries:
        text = entries[name.text].text
        return text is None or text.startswith("/")
    return not _VARIABLES_WITHOUT_PATHS.search(name.text)


def _carries(module: Module, call: ast.Call) -> bool:
    return PATH_CARRIERS.search(module.qualified(call.func) or callee_name(call)) is not None


def _is_elsewhere(place: Arrival, folder: str) -> bool:
    """Whether a place certainly gets a path outside of a folder."""
    node = place.node
    if isinstance(node, ast.Attribute) and place.call is not None and place.call.func is node:
        node = node.value
    text = evaluate(place.module, node).text if isinstance(node, ast.expr) else None
    return (
        text is not None
        and text.startswith("/")
        and not is_under(text, folder)
        and not is_under(folder, text)
    )


def _keeps_nothing(place: Arrival) -> bool:
    name = _called(place)
    return name is not None and _KEEPS_NOTHING.search(name) is not None


def _only_reads(place: Arrival) -> bool:
    name = _called(place)
    if name is None or place.call is None:
        return False
    if name.rpartition(".")[2] == "open":
        return not may_open_to_write(Call(place.call, place.module))
    return _READS.search(name) is not None or _LISTS.search(name) is not None


def _called(place: Arrival) -> str | None:
    if place.call is None:
        return None
    return place.module.qualified(place.call.func) or callee_name(place.call)


def _is_printed_list(module: Module, call: ast.Call) -> bool:
    name = module.qualified(call.func) or callee_name(call)
    return _LISTS.search(name) is not None and is_message(module, call)


def _imports_from_anywhere(module: Module) -> bool:
    """Whether a module adds a folder to `sys.path` that is unknown."""
    return any(
        call.argument(position=len(call.node.args) - 1).text is None
        for call in calls_to(module, "sys.path.append", "sys.path.insert", "sys.path.extend")
    )


def created_folders(module: Module) -> list[str]:
    """Folders that a module creates: `os.makedirs(path)`, `Path(path).mkdir()`."""
    calls = calls_named(module, "makedirs", "mkdir")
    paths = [
        (call.argument("name", 0) if call.name else evaluate(module, call.receiver)).text for call in calls
    ]
    return [path.rstrip("/") for path in paths if path]
