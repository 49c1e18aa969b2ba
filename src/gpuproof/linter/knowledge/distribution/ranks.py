"""Ranks of distributed scripts: which statements run on every rank, and how scripts start their processes."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.call_sites import call_sites
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.frameworks.torch import UTILITIES
from gpuproof.linter.project import Project

_GUARD = re.compile(
    r"rank|global_zero|master|main|chief|primary|leader|process|\bdist|host|distributed|should_save|node|worker|world|is_first|coordinator"
    r"|hvd|horovod|sdp|smddp|ddp",
    re.IGNORECASE,
)
"""Words in conditions that may restrict the code to a single process."""
_SAME_ON_ALL = re.compile(
    r"(^|\.)(n|num|max)_?(workers|nodes|hosts|processes|proc|epochs)$|(^|\.)(host_names|preprocess(ed|ing)?(_\w+)?|process(ed|ing)(_\w+)?)$"
)
"""Values that are the same on every rank, although a word in them could be a rank's."""
_MAIN = re.compile(r"__name__\s*==\s*['\"]__main__['\"]")
_SCHEDULE = re.compile(r"(^|_)(best|every|freq|frequency|interval|period|epochs?|steps?|iters?)(_|$)")
"""Names of values that say when to save, which are the same on every rank unless they come from the rank."""
_HOLDS_WITH_RANKS = re.compile(
    r"(^|\.)((is_|use_)?(distributed|ddp|dist|multiprocessing_distributed)|is_initialized|is_available)$"
)
"""Values that are true on every rank of a distributed run."""
_WORLD_SIZE = re.compile(r"(^|\.)(get_)?world_size$", re.IGNORECASE)
_SEVERAL_CALLS = re.compile(
    r"(^|\.)(mp|multiprocessing)\.spawn$|^torch\.multiprocessing\.|(^|\.)start_processes$"
)
_SEVERAL_NAMES = re.compile(r"^local_?rank$")
_SEVERAL_TEXTS = re.compile(r"LOCAL_RANK|torchrun|torch\.distributed\.(launch|run)|^(--)?local[_-]rank$")
_STARTERS = ("spawn", "start_processes", "Process")
_STARTS = re.compile(r"^(torch\.)?multiprocessing\.")
_ENTRY_POINTS = frozenset(
    {"main", "train", "run", "worker", "main_worker", "run_worker", "fit", "demo_basic"}
)
_LIBRARIES = re.compile(
    r"""
    ^\.*(lightning|pytorch_lightning|lightning_fabric|accelerate|deepspeed|horovod|smdistributed|ray|ignite|composer|colossalai
        |fairseq|megatron|torch_xla|fairscale|fastai|mosaicml|torchtitan|fabric)(\.|$)
    | (^|\.)(Accelerator|Trainer|Seq2SeqTrainer|Fabric)$ | (^|\.)(hvd|xm)\.
    """,
    re.VERBOSE,
)


def process_group_inits(module: Module) -> list[Call]:
    """The calls in a module that initialise the PyTorch process group."""
    if not module.imports("torch"):
        return []
    return [
        call
        for call in calls_named(module, "init_process_group")
        if call.receiver is None or (call.name or "").startswith("torch.")
    ]


def uses_distribution_library(script: Module, besides: str = "") -> bool:
    """Whether the script uses a library that handles ranks itself, and not only its seeds or loggers; true if in doubt.

    Args:
        besides: libraries that do not count, with spaces between: those that leave to the script what a rule is about.
    """
    left_out = tuple(f"{name}." for name in besides.split())
    return script.loader.cached(
        f"uses distribution library besides {besides}",
        script.unit,
        lambda: any(
            _LIBRARIES.search(use.text)
            and not UTILITIES.search(use.text)
            and not (left_out and f"{use.text}.".startswith(left_out))
            and not _is_own(module, use.node)
            for module in local_modules(script)
            for use in find_uses(module, "name", "call")
        ),
    )


def _is_own(module: Module, node: ast.AST) -> bool:
    """Whether a name is of a class or function of the project, such as a `Trainer` of its own."""
    written = node.func if isinstance(node, ast.Call) else node
    return isinstance(written, ast.expr) and find_definition(module, written) is not None


def runs_several_processes_per_host(script: Module) -> bool:
    """Whether the script is written for several processes per host, each with its own GPU."""
    return script.loader.cached("several processes per host", script.unit, lambda: _runs_several(script))


def _runs_several(script: Module) -> bool:
    return (
        script_uses(script, _SEVERAL_CALLS, "call")
        or script_uses(script, _SEVERAL_NAMES, "name", "attribute", "keyword")
        or any(map(_reads_local_rank, local_modules(script)))
        or any(map(_divides_by_gpus, local_modules(script)))
        or any(
            isinstance(node, ast.Name) and _SEVERAL_NAMES.match(node.id)
            for module in local_modules(script)
            for node in module.nodes(ast.Name)
        )
    )


def _divides_by_gpus(module: Module) -> bool:
    """Whether a module computes the GPU of a process from its rank: `rank % torch.cuda.device_count()`."""
    return any(
        isinstance(node.op, ast.Mod)
        and isinstance(node.right, ast.Call)
        and callee_name(node.right) == "device_count"
        for node in module.nodes(ast.BinOp)
    )


def _reads_local_rank(module: Module) -> bool:
    """Whether a module reads or declares the local rank, if only to print it."""
    return any(
        isinstance(node.value, str)
        and _SEVERAL_TEXTS.search(node.value)
        and not isinstance(module.parent(node), (ast.Expr, ast.JoinedStr))
        for node in module.nodes(ast.Constant)
    )


def has_one_gpu_per_host(module: Module, project: Project) -> bool:
    """Whether jobs run the script, all with one GPU per host; unknown types count as one GPU.

    A command or container on the machine at hand says nothing about its GPUs.
    """
    jobs = project.jobs_running(module)
    if any(map(_starts_several, jobs)):
        return False
    jobs = [
        job
        for job in jobs
        if job.has_contract or (gpus_per_host(project, job) and job.gpu_count.certainty != "default")
    ]
    return bool(jobs) and all((gpus_per_host(project, job) or 1) < 2 for job in jobs)


def _starts_several(job: JobDefinition) -> bool:
    """Whether the launcher in a job's command certainly starts several processes on a host."""
    launcher = job.start.launcher if job.start is not None else None
    if launcher is None:
        return False
    return (launcher.processes or 1) > 1 or (launcher.hosts == 1 and (launcher.total or 1) > 1)


def runs_on_every_rank(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether a statement certainly runs on every rank: no condition on any path to it depends on the rank.

    Paths go through functions of the project, from their calls or from typical entry points; false if in doubt.
    """
    if depth > 4 or _is_guarded(module, node):
        return False
    function = module.function_of(node)
    if function is None:
        # The processes that the script starts itself run one of its functions.
        return not any(_STARTS.search(call.name or "") for call in calls_named(module, *_STARTERS))
    if function.decorator_list:
        return False
    calls = [
        call for call in calls_named(module, function.name) if not module.tree.is_within(call.node, function)
    ]
    if calls:
        return all(runs_on_every_rank(module, call.node, depth + 1) for call in calls)
    if _is_spawned(module, function):
        return True
    sites = [site for site in call_sites(module, function) or () if site.module is not module]
    if sites:
        return all(runs_on_every_rank(site.module, site.call, depth + 1) for site in sites)
    return function.name in _ENTRY_POINTS


def always_runs(module: Module, node: ast.AST, depth: int = 0, *, imported: bool = False) -> bool:
    """Whether a statement runs on every run of the script: at its top level, or in a function called from there.

    Args:
        imported: whether the module is imported, so that what is under `if __name__ == "__main__":` does not run.
    """
    function = module.function_of(node)
    for ancestor in module.tree.ancestors(node):
        if ancestor is function:
            break
        main = not imported and isinstance(ancestor, ast.If) and "__main__" in module.text(ancestor.test)
        if (
            isinstance(ancestor, (ast.If, ast.Try, ast.IfExp, ast.BoolOp, ast.Lambda, ast.ClassDef))
            and not main
        ):
            return False
    if function is None:
        return True
    returns_early = any(
        isinstance(statement, (ast.Return, ast.Raise)) and module.function_of(statement) is function
        for statement in _nodes_before(function, node)
    )
    calls = [call for call in calls_named(module, function.name) if call.receiver is None]
    return (
        depth < 3
        and not returns_early
        and any(always_runs(module, call.node, depth + 1, imported=imported) for call in calls)
    )


def _nodes_before(function: ast.AST, node: ast.AST) -> list[ast.AST]:
    line = getattr(node, "lineno", 0)
    return [child for child in ast.walk(function) if getattr(child, "lineno", line) < line]


def _is_guarded(module: Module, node: ast.AST) -> bool:
    function = module.function_of(node)
    for test, holds in _tests_around(module, node, function):
        if not (holds and _holds_on_every_rank(module, test)) and _may_depend_on_rank(module, test):
            return True
    line = getattr(node, "lineno", 0)
    scope: ast.AST = function if function is not None else module.tree.root
    for leaving in ast.walk(scope):
        if not isinstance(leaving, ast.If) or leaving.lineno >= line:
            continue
        if isinstance(leaving.body[-1], (ast.Return, ast.Continue, ast.Raise)) and _may_depend_on_rank(
            module, leaving.test
        ):
            return True
    return False


def _tests_around(
    module: Module, node: ast.AST, function: FunctionNode | None
) -> list[tuple[ast.expr, bool]]:
    """The conditions around a node, each with whether it certainly holds where the node runs."""
    tests: list[tuple[ast.expr, bool]] = []
    inside = node
    for ancestor in module.tree.ancestors(node):
        if ancestor is function:
            break
        if isinstance(ancestor, (ast.If, ast.While)):
            tests.append((ancestor.test, inside in ancestor.body))
        elif isinstance(ancestor, ast.IfExp):
            tests.append((ancestor.test, inside is ancestor.body))
        elif isinstance(ancestor, ast.BoolOp):
            tests.append((ancestor, False))
        inside = ancestor
    return tests


def _holds_on_every_rank(module: Module, test: ast.expr) -> bool:
    """Whether a condition of a distributed run certainly has the same result, true, on every rank."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds_on_every_rank(module, value) for value in values)
        case ast.Call(func=function):
            return _HOLDS_WITH_RANKS.search(module.text(function)) is not None
        case ast.Name() | ast.Attribute():
            return _HOLDS_WITH_RANKS.search(module.text(test)) is not None
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE() | ast.NotEq()], comparators=[ast.Constant()]):
            size = left.func if isinstance(left, ast.Call) else left
            return _WORLD_SIZE.search(module.text(size)) is not None
        case _:
            return False


def _may_depend_on_rank(module: Module, test: ast.expr) -> bool:
    if _MAIN.fullmatch(module.text(test)):
        return False
    if _GUARD.search(_without_same(module, test)):
        return True
    for name in (node for node in ast.walk(test) if isinstance(node, ast.Name)):
        parent = module.parent(name)
        if isinstance(parent, ast.Attribute):
            # Names such as `args.verbose` are explicit; attributes of `self` may depend on the rank.
            if name.id == "self" and not _is_schedule(module, parent, parent.attr):
                return True
            continue
        made = module.origin(name)
        if made is name or made is None:
            if _is_parameter(module, name) and not _is_schedule(module, name, name.id):
                return True
        elif _GUARD.search(module.text(made)):
            return True
    return False


def _is_schedule(module: Module, node: ast.expr, name: str) -> bool:
    """Whether a value says when to save, and certainly does not come from the rank."""
    if not _SCHEDULE.search(name):
        return False
    found = sources(module, node)
    return found.complete and not any(_mentions_rank(made.module, made.node) for made in found.found)


def _mentions_rank(module: Module, node: ast.expr) -> bool:
    """Whether an expression, or a condition that selects it, has a word that may be a rank's."""
    tests = [test for test, _ in _tests_around(module, node, module.function_of(node))]
    texts = [module.text(written) for written in (node, *tests)]
    return any(_GUARD.search(text) and not _MAIN.fullmatch(text) for text in texts)


def _without_same(module: Module, test: ast.expr) -> str:
    """The words of a condition, without values that are the same on every rank."""
    names = [node for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))]
    words = [module.text(node) for node in names if not isinstance(module.parent(node), ast.Attribute)]
    words += [
        node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return " ".join(word for word in words if not _SAME_ON_ALL.search(word))


def _is_parameter(module: Module, name: ast.Name) -> bool:
    function = module.function_of(name)
    if function is None:
        return False
    given = function.args
    return name.id in {kwonlyarg.arg for kwonlyarg in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _is_spawned(module: Module, function: FunctionNode) -> bool:
    for call in calls_named(module, *_STARTERS):
        target = call.expression("fn", 0) or call.expression("target")
        for node in (target, call.expression("target")):
            if isinstance(node, ast.Name) and node.id == function.name:
                return True
    return False
