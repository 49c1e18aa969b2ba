"""Arguments of a DataLoader exclude each other: PyTorch raises a ValueError when the loader is created.

`shuffle=True` with a sampler, a `batch_sampler` with a batch size, `persistent_workers=True` or a `prefetch_factor` without worker
processes, and shuffling of an IterableDataset. The job has then started its instance and read its data.

Bad:

    from torch.utils.data import DataLoader, WeightedRandomSampler

    def loaders(dataset, weights):
        sampler = WeightedRandomSampler(weights, len(weights))
        return DataLoader(dataset, batch_size=32, shuffle=True, sampler=sampler, num_workers=4)  # <-

Bad:

    from torch.utils.data import DataLoader, TensorDataset

    def loaders(x, y):
        return DataLoader(TensorDataset(x, y), batch_size=32, persistent_workers=True)  # <-

Bad: a stream cannot be shuffled

    import torch
    from torch.utils.data import DataLoader

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield torch.ones(4)

    loader = DataLoader(Stream(), batch_size=4, shuffle=True)  # <-

Good:

    from torch.utils.data import DataLoader, WeightedRandomSampler

    def loaders(dataset, weights):
        sampler = WeightedRandomSampler(weights, len(weights))
        return DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4, persistent_workers=True)

Quiet: only without a sampler

    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    def loaders(dataset, distributed, workers):
        sampler = DistributedSampler(dataset) if distributed else None
        return DataLoader(
            dataset, shuffle=sampler is None, sampler=sampler, num_workers=workers, persistent_workers=workers > 0
        )
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to, origin_call
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IO110", "conflicting-loader-arguments", Severity.ERROR, needs=("DataLoader",))

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_to(module, *_LOADERS):
        for problem, remedy, is_known in _conflicts(call):
            yield rule.hit(
                call.span,
                f"`DataLoader` raises a ValueError: {problem}.",
                remedy=remedy,
                severity=rule.severity if is_known else lowered(rule.severity),
            )
            break


def _conflicts(call: Call) -> Iterator[tuple[str, str, bool]]:
    """What is wrong, how to repair it, and whether the values are known rather than defaults."""
    shuffle, workers = call.argument("shuffle", 2), call.argument("num_workers", 5)
    shuffles = shuffle.is_known and shuffle.flag is True
    if shuffles and _is_sampler(call, call.expression("sampler", 3)):
        yield (
            "shuffle=True and a sampler exclude each other",
            "Remove shuffle=True: the sampler decides the order.",
            True,
        )
    if _is_sampler(call, call.expression("batch_sampler", 4)):
        given = [name for name in ("batch_size", "shuffle", "sampler", "drop_last") if _sets(call, name)]
        if given:
            yield f"batch_sampler excludes {', '.join(given)}", f"Remove {', '.join(given)}.", True
    if shuffles and _is_stream(call):
        yield (
            "an IterableDataset cannot be shuffled",
            "Remove shuffle=True, and shuffle in the dataset's __iter__.",
            True,
        )
    no_workers = workers.is_absent or (workers.is_sure and workers.number == 0)
    if no_workers:
        certain = workers.is_absent or workers.is_known
        if call.argument("persistent_workers").flag is True and call.argument("persistent_workers").is_known:
            yield (
                "persistent_workers=True needs num_workers > 0",
                "Pass num_workers=4, or remove persistent_workers.",
                certain,
            )
        factor = call.argument("prefetch_factor")
        if factor.is_known and factor.number is not None and factor.number != 2:
            yield (
                f"prefetch_factor={factor.number:g} needs num_workers > 0",
                "Pass num_workers=4, or remove prefetch_factor.",
                certain,
            )


def _sets(call: Call, name: str) -> bool:
    """Whether an argument is set to something else than its default, certainly."""
    node = call.expression(name)
    if node is None:
        return False
    value = call.argument(name)
    return (value.is_known and value.value not in (1, False, None)) or (
        name == "sampler" and _is_sampler(call, node)
    )


def _is_sampler(call: Call, node: ast.expr | None) -> bool:
    made = origin_call(call.module, node) if node is not None else None
    return made is not None and made.method.endswith("Sampler")


def _is_stream(call: Call) -> bool:
    """Whether the dataset is certainly an IterableDataset."""
    made = creations(call.module, call.expression("dataset", 0))
    return bool(made) and all(_derives_from_stream(each) for each in made)


def _derives_from_stream(made: Call) -> bool:
    found = find_definition(made.module, made.node.func)
    if found is None or not isinstance(found.node, ast.ClassDef):
        return False
    return any(base.endswith("data.IterableDataset") for base in found.module.bases(found.node))
