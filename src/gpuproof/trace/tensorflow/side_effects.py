"""What TensorFlow itself writes, past Python's own functions: models, checkpoints, summaries, records."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from gpuproof.trace.notes import Notes


def prevent_writes(notes: Notes) -> None:
    """Do nothing where a script saves, or write to the folder for temporary files, from now on."""

    def skipped(name: str, answer: Any = None) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            notes.add("save", name)
            return answer

        return call

    for name in ("save", "save_weights", "export"):
        setattr(keras.Model, name, skipped(f"Model.{name}"))
    keras.saving.save_model = keras.models.save_model = skipped("keras.saving.save_model")
    tf.saved_model.save = skipped("tf.saved_model.save")
    for kind in (tf.train.Checkpoint, tf.train.CheckpointManager):
        for name in ("save", "write"):
            if hasattr(kind, name):
                setattr(kind, name, skipped(f"{kind.__name__}.{name}", ""))
    noop = tf.summary.create_noop_writer

    def writer(*_: Any, **__: Any) -> Any:
        notes.add("write", "tf.summary wrote nothing.")
        return noop()

    tf.summary.create_file_writer = writer
    for name in ("makedirs", "mkdir", "remove", "rmtree", "rename", "copy"):
        setattr(tf.io.gfile, name, skipped(f"tf.io.gfile.{name}"))
    _redirect(tf.io.gfile.GFile, notes, reads=True)
    _redirect(tf.io.TFRecordWriter, notes, reads=False)
    cache = tf.data.Dataset.cache

    def in_memory(self: Any, filename: Any = "", **kwargs: Any) -> Any:
        if filename:
            notes.add("write", f"Dataset.cache did not write {filename}.")
        return cache(self, **kwargs)

    tf.data.Dataset.cache = in_memory


def note_callbacks(callbacks: Any, notes: Notes) -> None:
    """List what the callbacks of a `fit` would have written."""
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]:
        place = next(
            (
                getattr(callback, name)
                for name in ("filepath", "filename", "log_dir", "backup_dir", "_backup_dir")
                if getattr(callback, name, None)
            ),
            None,
        )
        if place is not None:
            notes.add("write", f"The callback {type(callback).__name__} did not write {place}.")


def _redirect(kind: Any, notes: Notes, *, reads: bool) -> None:
    initialize = kind.__init__

    def create(self: Any, name: Any, *args: Any, **kwargs: Any) -> None:
        mode = str(kwargs.get("mode", args[0] if args else "r")) if reads else "w"
        if set(mode) & set("wa+"):
            notes.add("write", f"writing {name}")
            name = str(Path(tempfile.gettempdir(), Path(str(name)).name))
        initialize(self, name, *args, **kwargs)

    kind.__init__ = create
