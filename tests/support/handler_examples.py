"""The handlers under tests/serve/handlers: their model folders, and what each answers to which request."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HANDLERS = Path(__file__).parent.parent / "serve" / "handlers"


@dataclass(frozen=True)
class Case:
    """One request and its answer.

    Args:
        answer: the response's body as JSON; other formats are in `document` (`answer_text`, `answer_npy`, …).
        document: the case as in `example.json`.
    """

    about: str
    body: bytes
    content_type: str
    accept: str
    headers: Mapping[str, str]
    custom_attributes: str
    status: int
    document: Mapping[str, Any]

    def check(self, content_type: str, body: bytes) -> None:
        """Asserts that an answer with status 200 is the expected one."""
        document = self.document
        if "answer_content_type" in document:
            assert content_type == document["answer_content_type"]
        if "answer_text" in document:
            assert body.decode() == document["answer_text"]
        elif "answer_npy" in document:
            _same(_npy(body).tolist(), document["answer_npy"])
        elif "answer_npz" in document:
            _same({name: array.tolist() for name, array in _npy(body).items()}, document["answer_npz"])
        elif "answer" in document:
            _same(json.loads(body), document["answer"])


@dataclass(frozen=True)
class Example:
    """One handler with its cases.

    Args:
        model_of: the handler whose `build.py` makes the model; mostly its own.
    """

    name: str
    style: str
    needs: tuple[str, ...]
    environment: Mapping[str, str]
    batch: int | None
    cases: tuple[Case, ...] = field(repr=False)
    model_of: str

    @property
    def is_slow(self) -> bool:
        return bool({"torch", "tensorflow", "sklearn"} & set(self.needs))

    def build(self, folder: Path) -> Path:
        """Makes the model's folder, `/opt/ml/model` in a container."""
        home = HANDLERS / self.name
        folder.mkdir(parents=True, exist_ok=True)
        builder = HANDLERS / self.model_of / "build.py"
        if builder.is_file():
            spec = importlib.util.spec_from_file_location(f"build_{self.name}", builder)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.build(folder)
        for source, target in ((home / "code", folder / "code"), (home / "top", folder)):
            if source.is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignore)
        return folder


def examples() -> list[Example]:
    """All handlers, by name."""
    return [example(path.parent.name) for path in sorted(HANDLERS.glob("*/example.json"))]


def example(name: str) -> Example:
    """One handler."""
    document = json.loads((HANDLERS / name / "example.json").read_text())
    return Example(
        name,
        document["style"],
        tuple(document["needs"]),
        document.get("environment", {}),
        document.get("batch"),
        tuple(_case(case) for case in document["cases"]),
        document.get("model_of", name),
    )


def _case(document: Mapping[str, Any]) -> Case:
    return Case(
        about=document.get("about", ""),
        body=_body(document),
        content_type=document["content_type"],
        accept=document.get("accept", ""),
        headers=document.get("headers", {}),
        custom_attributes=document.get("custom_attributes", ""),
        status=document.get("status", 200),
        document=document,
    )


def _body(document: Mapping[str, Any]) -> bytes:
    if "body_base64" in document:
        return base64.b64decode(document["body_base64"])
    if "npy" in document or "npz" in document:
        import numpy as np

        stream = io.BytesIO()
        if "npy" in document:
            np.save(stream, np.array(document["npy"], np.float32))
        else:
            np.savez(stream, **{name: np.array(value, np.float32) for name, value in document["npz"].items()})
        body = stream.getvalue()
        return body[: len(body) - document.get("cut", 0)]
    return document["body"].encode()


def _npy(body: bytes) -> Any:
    import numpy as np

    return np.load(io.BytesIO(body), allow_pickle=False)


def _same(given: Any, expected: Any) -> None:
    """Equal, except for rounding errors."""
    if isinstance(expected, dict):
        assert given.keys() == expected.keys()
        for name, value in expected.items():
            _same(given[name], value)
    elif isinstance(expected, list):
        assert len(given) == len(expected), f"{given} for {expected}"
        for one, other in zip(given, expected, strict=True):
            _same(one, other)
    elif isinstance(expected, float | int) and not isinstance(expected, bool):
        assert abs(given - expected) <= 1e-3 * max(1.0, abs(expected)), f"{given} for {expected}"
    else:
        assert given == expected
