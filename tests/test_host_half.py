"""The packages that run in the job's container must work there, whatever is installed."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

import gpuproof

_Key = TypeVar("_Key")
PACKAGE = Path(gpuproof.__file__).parent
HOST_PACKAGES = ("agent", "gpu", "notebook", "runtime", "serve", "terminal", "trace", "util", "watch")
MODULES = sorted(
    [
        PACKAGE / "findings.py",
        *(path for package in HOST_PACKAGES for path in (PACKAGE / package).rglob("*.py")),
    ]
)
# Came after Python 3.9, or went until 3.13: https://docs.python.org/3/whatsnew/
NOT_EVERYWHERE = {
    *("tomllib", "annotationlib", "compression"),
    *("asynchat", "asyncore", "distutils", "imp", "smtpd"),
    *(
        "aifc",
        "audioop",
        "cgi",
        "cgitb",
        "chunk",
        "crypt",
        "imghdr",
        "lib2to3",
        "mailcap",
        "msilib",
        "nis",
        "nntplib",
    ),
    *("ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
}
ALLOWED = {*sys.stdlib_module_names, "pynvml"} - NOT_EVERYWHERE
PROBES = {"agent/requirements/pip_probe.py": {"pip"}, "gpu/probes/": {"torch", "tensorflow", "jax"}}
"""Programs that the script's own interpreter runs, and what of its packages they may ask; nothing imports them."""
IMAGE = {
    "agent/ranks/rank.py": {"mpi4py"},
    "agent/ranks/torchrun.py": {"torch"},
    "agent/sinks/mlflow.py": {"mlflow"},
    "agent/sinks/trackio.py": {"trackio"},
    "agent/sinks/wandb.py": {"wandb"},
    # IPython loads it.
    "notebook/extension.py": {"IPython"},
    "runtime/distribution/process_group.py": {"torch"},
    "runtime/models/torch_inference.py": {"torch"},
    "serve/shims/": {"sagemaker_inference"},
    "serve/codecs/": {"numpy", "orjson", "scipy"},
    "serve/frameworks/": {"numpy"},
    "serve/frameworks/tensorflow_signatures.py": {"keras"},
    "serve/frameworks/tensorflow.py": {"keras", "tensorflow"},
    "serve/frameworks/tensorflow_session.py": {"tensorflow"},
    "serve/frameworks/torch.py": {"torch"},
    "serve/model/collate.py": {"numpy"},
    "serve/observability/tracing.py": {"opentelemetry"},
    "trace/synthetic_data.py": {"numpy", "torch", "torchvision"},
    "trace/handler.py": {"numpy", "tensorflow", "torch"},
    "trace/pytorch/": {"torch"},
    "trace/pytorch/synthetic/": {"numpy", "PIL", "torchvision"},
    "trace/tensorflow/": {"keras", "numpy", "tensorflow"},
}
"""Packages of the image that a module may import, and only when a model or a script needs them."""
OWN = ("gpuproof.version", "gpuproof.findings", *(f"gpuproof.{package}" for package in HOST_PACKAGES))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file in Python 3.9; raises SyntaxError for newer syntax."""
    return ast.parse(path.read_bytes(), str(path), feature_version=(3, 9))


def imports(path: Path, *, at_once: bool = False) -> Iterator[str]:
    """Every module that a file imports, also in functions and under conditions, by its full name.

    Args:
        at_once: those alone that are imported with the file itself.
    """
    package = ["gpuproof", *path.relative_to(PACKAGE).parent.parts]
    tree = parsed(path)
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # `from gpuproof import gpu` names a package as `import gpuproof.gpu` does.
            yield from (
                (f"{module}.{alias.name}" for alias in node.names) if module == "gpuproof" else [module]
            )
        elif _imports_by_name(node):
            assert isinstance(node, ast.Call)
            yield from (word.value for word in node.args[:1] if isinstance(word, ast.Constant))


def _imports_by_name(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("import_module", "__import__")


def test_the_modules_of_all_host_packages_are_found() -> None:
    assert {path.parent.name for path in MODULES} >= set(HOST_PACKAGES)


def test_host_packages_import_the_standard_library_pynvml_and_each_other_alone() -> None:
    offenders = {}
    for path in MODULES:
        name = path.relative_to(PACKAGE).as_posix()
        more = [packages for place, packages in {**PROBES, **IMAGE}.items() if name.startswith(place)]
        offenders[name] = list(_foreign(imports(path), ALLOWED.union(*more)))
    assert _not_empty(offenders) == {}


def test_the_server_starts_without_the_images_packages() -> None:
    offenders = {}
    for path in (PACKAGE / "serve").rglob("*.py"):
        shims = IMAGE["serve/shims/"] if "shims" in path.parts else set()
        offenders[path] = list(_foreign(imports(path, at_once=True), ALLOWED | shims))
    assert len(offenders) > 1
    assert _not_empty(offenders) == {}


def test_host_packages_import_no_program_of_the_scripts_interpreter() -> None:
    probes = tuple(f"gpuproof.{probe.removesuffix('.py').rstrip('/').replace('/', '.')}" for probe in PROBES)
    offenders = {path: [name for name in imports(path) if name.startswith(probes)] for path in MODULES}
    assert _not_empty(offenders) == {}


def test_host_packages_are_python_3_9() -> None:
    offenders = {}
    for path in MODULES:
        try:
            parsed(path)
        except SyntaxError as error:
            offenders[path] = str(error)
    assert offenders == {}


def test_annotations_of_host_packages_are_not_evaluated() -> None:
    assert [
        path for path in MODULES if _has_annotations(parsed(path)) and not _defers_them(parsed(path))
    ] == []


def _foreign(names: Iterator[str], allowed: set[str]) -> Iterator[str]:
    own = tuple(f"{package}." for package in OWN)
    return (
        name for name in names if name.partition(".")[0] not in allowed and not f"{name}.".startswith(own)
    )


def _not_empty(offenders: Mapping[_Key, list[str]]) -> dict[_Key, list[str]]:
    return {key: names for key, names in offenders.items() if names}


def _has_annotations(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None)
        or (isinstance(node, ast.FunctionDef) and node.returns is not None)
        for node in ast.walk(tree)
    )


def _defers_them(tree: ast.Module) -> bool:
    first = next((node for node in tree.body if isinstance(node, ast.ImportFrom)), None)
    return first is not None and first.module == "__future__"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    import boto3", ["boto3"]),
        ("if True:\n    from yaml import load", ["yaml"]),
        ("from gpuproof import jobs", ["gpuproof.jobs"]),
        ("from . import paths", ["gpuproof.agent"]),
        ("from ..jobs import spec", ["gpuproof.jobs"]),
        ("import importlib\nimportlib.import_module('torch')", ["importlib", "torch"]),
    ],
)
def test_the_search_finds_imports_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, found: list[str]
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "x.py").write_text(source)
    assert list(imports(tmp_path / "agent" / "x.py")) == found


def test_the_search_refuses_what_python_3_9_has_not(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass", feature_version=(3, 9))
