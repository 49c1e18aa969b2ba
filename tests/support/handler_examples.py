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
        answer: the response's body as JSON; other formats are in `told` (`answer_text`, `answer_npy`, …).
        told: the case as in `example.json`.
    """

    about: str
    body: bytes
    content_type: str
    accept: str
    headers: Mapping[str, str]
    custom_attributes: str
    status: int
    told: Mapping[str, Any]

    def check(self, content_type: str, body: bytes) -> None:
        """Asserts that an answer with status 200 is the expected one."""
        told = self.told
        if "answer_content_type" in told:
            assert content_type == told["answer_content_type"]
        if "answer_text" in told:
            assert body.decode() == told["answer_text"]
        elif "answer_npy" in told:
            _same(_npy(body).tolist(), told["answer_npy"])
        elif "answer_npz" in told:
            _same({name: array.tolist() for name, array in _npy(body).items()}, told["answer_npz"])
        elif "answer" in told:
            _same(json.loads(body), told["answer"])


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
    told = json.loads((HANDLERS / name / "example.json").read_text())
    return Example(
        name,
        told["style"],
        tuple(told["needs"]),
        told.get("environment", {}),
        told.get("batch"),
        tuple(_case(case) for case in told["cases"]),
        told.get("model_of", name),
    )


def _case(told: Mapping[str, Any]) -> Case:
    return Case(
        about=told.get("about", ""),
        body=_body(told),
        content_type=told["content_type"],
        accept=told.get("accept", ""),
        headers=told.get("headers", {}),
        custom_attributes=told.get("custom_attributes", ""),
        status=told.get("status", 200),
        told=told,
    )


def _body(told: Mapping[str, Any]) -> bytes:
    if "body_base64" in told:
        return base64.b64decode(told["body_base64"])
    if "npy" in told or "npz" in told:
        import numpy as np

        stream = io.BytesIO()
        if "npy" in told:
            np.save(stream, np.array(told["npy"], np.float32))
        else:
            np.savez(stream, **{name: np.array(value, np.float32) for name, value in told["npz"].items()})
        body = stream.getvalue()
        return body[: len(body) - told.get("cut", 0)]
    return told["body"].encode()


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
