"""Which SCRIPT is a served model, and the folder from which its requests are traced."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuproof.errors import GPUproofError, UsageError
from gpuproof.planning.tracing import ServedModel
from gpuproof.serve.errors import LoadError
from gpuproof.serve.frameworks import tensorflow_files, torch_files
from gpuproof.serve.model.archive import ARCHIVES, holds_model, prepare
from gpuproof.serve.model.warmup import content_type_of

_HANDLER = "inference.py"
_FUNCTIONS = frozenset({"model_fn", "predict_fn", "transform_fn", "input_handler", "handler"})
_FILES = (*ARCHIVES, *torch_files.SUFFIXES, *tensorflow_files.KERAS_SUFFIXES)
_JOB_FILE = "gpuproof.yaml"


def is_served_model(path: Path) -> bool:
    """Whether a path is a model as `gpuproof serve` takes it, or a handler, and not a script or a job.

    A Python file is a handler if it defines one of its functions, and is named `inference.py` or has no part that runs as a
    script: training scripts of older SageMaker examples define `model_fn`, too.
    """
    if path.is_dir():
        return not (path / _JOB_FILE).is_file() and holds_model(path)
    if path.suffix != ".py":
        return path.name.endswith(_FILES)
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return bool(defined & _FUNCTIONS) and (path.name == _HANDLER or not any(map(_runs, tree.body)))


def _runs(statement: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    if not isinstance(statement, ast.If):
        return False
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def served_model(
    path: Path, scratch: Path, *, code: Path | None, request: Path | None, content_type: str | None
) -> ServedModel:
    """Prepare a model for `gpuproof.trace`.

    Args:
        path: a handler, or a model as `gpuproof serve` takes it.
        scratch: an empty folder for unpacked archives and links; must exist as long as the model is traced.
        code: the handler, or the folder that becomes `code/`.
        request: file with the body of a request.
        content_type: of the body; by the file's suffix if None.

    Raises:
        GPUproofError: it is no model.
    """
    if request is not None and not request.is_file():
        raise UsageError(
            f"--request {request} does not exist.", remedy="Use a file with the body of a request."
        )
    if not path.exists():
        raise UsageError(
            f"There is no file or folder {path}.", remedy="gpuproof plan inference.py --request r.json"
        )
    if path.suffix == ".py":
        if code is not None:
            raise UsageError(
                "--code is for a model; SCRIPT is a handler already.", remedy=f"gpuproof plan {path}"
            )
        model = path.absolute().parent
        if model.name == "code":
            model = model.parent
        code = None if path.name == _HANDLER else path
    else:
        model = path
    try:
        folder = prepare(model, scratch, code)
    except LoadError as error:
        raise GPUproofError(error.message, remedy=error.remedy) from error
    if content_type is None and request is not None:
        content_type = content_type_of(request)
    return ServedModel(folder.absolute(), request, content_type or "application/json")
