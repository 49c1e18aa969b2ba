"""The store keeps its resources on disk."""

from __future__ import annotations

from pathlib import Path

from gpuproof_emulator.store import Resource, Store


def test_documents_survive_and_removed_ones_do_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept, gone = (Resource("model", "us-east-1", name, {"ModelName": name}) for name in ("kept", "gone"))
    assert store.add(kept)
    assert store.add(gone)
    assert not store.add(Resource("model", "us-east-1", "kept", {}))
    with store.modify(kept):
        kept.document["More"] = 1
    store.remove(gone)
    assert [item.document for item in Store(tmp_path).all()] == [{"ModelName": "kept", "More": 1}]
