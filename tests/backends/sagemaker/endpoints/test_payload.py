"""What `gpuproof predict --data` reads."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpuproof.backends.sagemaker.endpoints.invocation.errors import model_error, reject_large
from gpuproof.backends.sagemaker.endpoints.invocation.payload import content_type_of, read_payload
from gpuproof.backends.sagemaker.endpoints.invocation.prediction import body_members
from gpuproof.errors import UsageError


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("a.json", "application/json"),
        ("a.JSONL", "application/jsonlines"),
        ("a.csv", "text/csv"),
        ("a.npy", "application/x-npy"),
        ("a.npz", "application/x-npz"),
        ("a.jpg", "image/jpeg"),
        ("a.png", "image/png"),
        ("a.webp", "image/webp"),
        ("a.txt", "text/plain"),
        ("a.weights", "application/octet-stream"),
        ("no-suffix", "application/octet-stream"),
    ],
)
def test_the_suffix_of_a_file_decides_its_type(name: str, media: str) -> None:
    assert content_type_of(name) == media


def test_a_named_type_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2")
    assert read_payload(str(path), None, io.BytesIO()).content_type == "text/csv"
    payload = read_payload(str(path), "application/x-rows", io.BytesIO())
    assert (payload.content, payload.content_type) == (b"1,2", "application/x-rows")


def test_json_and_standard_input_are_data() -> None:
    assert read_payload('{"a": [1]}', None, io.BytesIO()).content == b'{"a": [1]}'
    piped = read_payload("-", None, io.BytesIO(b"[1]"))
    assert (piped.content, piped.content_type) == (b"[1]", "application/json")
    long = "[" + "1," * 5000 + "1]"
    assert read_payload(long, None, io.BytesIO()).content == long.encode()


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a file nor JSON"):
        read_payload("nothing.json", None, io.BytesIO())
    with pytest.raises(UsageError, match="is a folder"):
        read_payload(str(tmp_path), None, io.BytesIO())


def test_a_large_body_is_rejected_with_the_alternatives() -> None:
    reject_large("e", 6 << 20, 6 << 20, "x.npy")
    with pytest.raises(UsageError, match=r"x\.npy has 6,291,457 bytes; e takes at most 6,291,456") as caught:
        reject_large("e", (6 << 20) + 1, 6 << 20, "x.npy")
    assert "asynchronous endpoint" in str(caught.value.remedy)


@pytest.mark.parametrize(("status", "remedy"), [(415, "--content-type"), (406, "--accept"), (500, "LOGS")])
def test_the_remedy_follows_the_models_status(status: int, remedy: str) -> None:
    error = model_error("e", status, "  a\n  message ", "text/csv", "LOGS")
    assert f"answered {status}: a message" in error.message
    assert remedy in str(error.remedy)


def test_a_body_becomes_json_text_or_base64() -> None:
    assert body_members(b"[1]", "application/json; charset=utf-8") == {"json": [1]}
    assert body_members(b"[1", "application/json") == {"text": "[1"}
    assert body_members(b"1,2", "text/csv") == {"text": "1,2"}
    assert body_members(b"\xff\x00", "application/x-npy") == {"base64": "/wA="}
