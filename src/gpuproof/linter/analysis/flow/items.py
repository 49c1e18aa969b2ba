"""Where items of tuples, lists and mappings come from: `build()[0]`, `parts["model"]`, `MODELS[name]`."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.call_arguments import entry_of
from gpuproof.linter.analysis.flow.model import UNKNOWN_SOURCES, Source, Sources, Tracer, merged, one_source
from gpuproof.linter.analysis.module import Module


def item_of(tracer: Tracer, module: Module, value: ast.expr, key: ast.expr, node: ast.expr) -> Sources:
    """Where `value[key]` comes from."""
    if isinstance(key, ast.Constant) and isinstance(key.value, (int, str)):
        found = item_at(tracer, module, value, key.value)
    elif isinstance(key, ast.Slice):
        return one_source(module, node)
    else:
        found = _any(tracer, module, value)
    return found if found.found else one_source(module, node)


def item_at(tracer: Tracer, module: Module, value: ast.expr, key: int | str) -> Sources:
    """Where an item of a tuple or mapping comes from."""
    traced = tracer.trace(module, value)
    parts: list[Sources] = [] if traced.complete else [UNKNOWN_SOURCES]
    for source in traced.found:
        match source.node:
            case ast.Tuple(elts=items) | ast.List(elts=items) if isinstance(key, int):
                is_plain = not any(isinstance(item, ast.Starred) for item in items)
                inside = is_plain and -len(items) <= key < len(items)
                parts.append(tracer.trace(source.module, items[key]) if inside else UNKNOWN_SOURCES)
            case ast.ListComp(elt=made) | ast.DictComp(value=made):
                parts.append(tracer.trace(source.module, made))
            case ast.Dict() | ast.Call(func=ast.Name(id="dict")):
                entry = entry_of(source, key)
                parts.append(tracer.trace(*entry) if entry is not None else _stored(tracer, source, key))
            case _:
                parts.append(UNKNOWN_SOURCES)
    return merged(parts)


def _any(tracer: Tracer, module: Module, value: ast.expr) -> Sources:
    """Every value of a mapping, such as a registry of classes."""
    traced = tracer.trace(module, value)
    parts: list[Sources] = [] if traced.complete else [UNKNOWN_SOURCES]
    for source in traced.found:
        match source.node:
            case ast.Dict(values=items) | ast.Tuple(elts=items) | ast.List(elts=items) if items:
                parts += [tracer.trace(source.module, item) for item in items]
            case ast.ListComp(elt=made) | ast.DictComp(value=made):
                parts.append(tracer.trace(source.module, made))
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if keywords:
                parts += [tracer.trace(source.module, keyword.value) for keyword in keywords]
            case _:
                parts.append(UNKNOWN_SOURCES)
    return merged(parts)


def _stored(tracer: Tracer, source: Source, key: int | str) -> Sources:
    """What is stored later in a mapping that a name stands for: `parts["model"] = model`."""
    module = source.module
    statement = module.parent(source.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return UNKNOWN_SOURCES
    parts: list[Sources] = []
    for use in module.tree.uses_of(target.id):
        match module.parent(use):
            case ast.Subscript(slice=ast.Constant(value=name), ctx=ast.Store()) as item if name == key:
                stored = module.parent(item)
                if isinstance(stored, ast.Assign) and item in stored.targets:
                    parts.append(tracer.trace(module, stored.value))
            case _:
                pass
    return merged(parts) if parts else UNKNOWN_SOURCES
