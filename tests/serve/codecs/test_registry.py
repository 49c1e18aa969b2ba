"""Bodies to arrays and back, and the errors for bodies that do not match their content type."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest

from gpuproof.serve import media_types
from gpuproof.serve.codecs import csv, json_fast, npy, registry, tensorflow_json
from gpuproof.serve.codecs import json as json_text
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.codecs.tensorflow_json import Spec, TensorAnswer
from gpuproof.serve.errors import RequestError


def test_numbers_in_json_become_float32_on_request() -> None:
    array = registry.read_body(b"[[1, 2], [3, 4.5]]", media_types.JSON, np.float32)
    assert array.dtype == np.float32
    assert array.tolist() == [[1, 2], [3, 4.5]]


def test_numbers_in_json_keep_their_type_by_default() -> None:
    assert registry.read_body(b"[1, 2]", media_types.JSON).dtype == np.int64


@pytest.mark.parametrize("body", [b'["1", "2"]', b"[null, 1]", b"[true]"])
def test_what_is_not_a_number_is_not_converted(body: bytes) -> None:
    value = registry.read_body(body, media_types.JSON, np.float32)
    assert not isinstance(value, np.ndarray) or body == b"[true]"


def test_a_body_without_a_content_type_is_json() -> None:
    assert registry.read_body(b"[1]", "").tolist() == [1]


def test_nan_and_infinity_are_read_as_pythons_clients_write_them() -> None:
    array = registry.read_body(
        json.dumps([float("nan"), float("inf")]).encode(), media_types.JSON, np.float32
    )
    assert np.isnan(array[0])
    assert np.isinf(array[1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[1,\n 2,,]", "line 2, column 4"),
        (b"", "empty"),
        (b'["\xff"]', "byte 2 is not UTF-8"),
        (b"[[1, 2], [3]]", "differ in length"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[1] x", "line 1, column 5"),
    ],
)
def test_broken_json_is_400_with_the_place(body: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        registry.read_body(body, media_types.JSON, np.float32)
    assert caught.value.status == 400


@pytest.mark.parametrize("without_orjson", [False, True])
def test_arrays_are_written_as_json_with_or_without_orjson(
    without_orjson: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without_orjson:
        monkeypatch.setattr(json_fast, "orjson", None)
    value = {
        "a": np.array([[1.5, np.nan]], np.float32),
        "n": np.int64(3),
        "t": (1, {2}),
        "h": np.float16([2]),
    }
    assert json_text.write(value) == b'{"a":[[1.5,NaN]],"n":3,"t":[1,[2]],"h":[2.0]}'


def test_what_has_no_form_in_json_is_406() -> None:
    with pytest.raises(RequestError, match="object cannot be represented") as caught:
        registry.write_body(object(), media_types.JSON)
    assert caught.value.status == 406


def test_integers_beyond_64_bits_are_written() -> None:
    assert json_text.write([1 << 70]) == b"[1180591620717411303424]"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(5.0),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(["a", "bc"]),
        np.array([True]),
    ],
)
def test_an_npy_comes_back_as_it_went(array: Any) -> None:
    back = npy.read_npy(npy.write_npy(array))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_an_npy_of_python_objects_is_refused_before_its_pickle_is_read() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(RequestError, match="Python objects") as caught:
        npy.read_npy(stream.getvalue())
    assert caught.value.status == 400
    assert Trap.sprung == 0


class Trap:
    sprung = 0

    def __reduce__(self) -> Any:
        return (Trap.spring, ())

    @staticmethod
    def spring() -> None:
        Trap.sprung += 1


def test_every_truncation_of_an_npy_is_400() -> None:
    whole = npy.write_npy(np.arange(4, dtype=np.float64))
    for length in range(len(whole)):
        with pytest.raises(RequestError) as caught:
            npy.read_npy(whole[:length])
        assert caught.value.status == 400


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000000000000), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1000000000000000000000000000), }",
        b"{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,), }",
        b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
        b"__import__('os').abort()",
    ],
)
def test_a_lying_npy_header_is_400_and_takes_no_memory(header: bytes) -> None:
    padded = header + b" " * (64 - (len(header) + 11) % 64) + b"\n"
    body = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + b"\0" * 16
    with pytest.raises(RequestError) as caught:
        npy.read_npy(body)
    assert caught.value.status == 400


def test_an_npz_contains_its_arrays_by_name() -> None:
    body = npy.write_npz({"user": np.array([1.0]), "item": np.array([[2]])})
    read = registry.read_body(body, media_types.NPZ)
    assert {name: array.tolist() for name, array in read.items()} == {"user": [1.0], "item": [[2]]}


def test_an_npz_bomb_is_413() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", b"\0")
    body = bytearray(stream.getvalue())
    # The directory at the end contains the unpacked size of a member.
    at = body.index(b"PK\x01\x02") + 24
    body[at : at + 4] = (3 << 30).to_bytes(4, "little")
    with pytest.raises(RequestError) as caught:
        npy.read_npz(bytes(body))
    assert caught.value.status == 413


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"1,2\n3,4\n", [[1, 2], [3, 4]]),
        (b"1.5,2", [1.5, 2]),
        (b"\xef\xbb\xbf1,2", [1, 2]),
        (b"1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        (b"-1e3, 2", [-1000, 2]),
        (b'"1","2"', [1, 2]),
        (b"a,b\nc,d", [["a", "b"], ["c", "d"]]),
        (b"7", 7),
        (b"1,2,3,4\r5,6,7,8\r", [[1, 2, 3, 4], [5, 6, 7, 8]]),
        (b'1,"2"\r3,4\r', [[1, 2], [3, 4]]),
        (b"a,b\rc,d\n", [["a", "b"], ["c", "d"]]),
    ],
)
def test_csv_becomes_an_array(body: bytes, expected: Any) -> None:
    assert csv.read(body).tolist() == expected


def test_an_empty_field_of_csv_is_nan() -> None:
    assert np.isnan(csv.read(b"1,,3")[1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"1,2\n3", "row 2 has 1 fields, the first has 2"),
        (b"", "empty"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"1,2\n3," + b"x" * 131_073, "line 2: field larger than field limit"),
    ],
)
def test_broken_csv_is_400_with_the_place(body: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        csv.read(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[0.1, 2]], np.float32), b"0.1,2.0\n"),
        (np.array([1, 2]), b"1\n2\n"),
        (np.array([[1.0, np.nan]]), b"1.0,nan\n"),
        (np.array(["a,b", "c"]), b'"a,b"\nc\n'),
        (np.float32(3), b"3.0\n"),
    ],
)
def test_an_array_becomes_csv(array: Any, expected: bytes) -> None:
    assert csv.write(array) == expected


def test_three_dimensions_have_no_form_in_csv() -> None:
    with pytest.raises(RequestError) as caught:
        registry.write_body(np.zeros((1, 1, 1)), media_types.CSV)
    assert caught.value.status == 406


def test_bytes_go_through_as_they_are() -> None:
    assert registry.read_body(memoryview(b"\x00\xff"), "image/png") == b"\x00\xff"
    assert registry.read_body(b"\x00", media_types.OCTETS) == b"\x00"


def test_an_unknown_type_is_415_with_what_is_taken() -> None:
    with pytest.raises(RequestError, match=r"application/x-protobuf; it accepts application/json") as caught:
        registry.read_body(b"", "application/x-protobuf")
    assert caught.value.status == 415


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        ("application/json;q=0.5, text/csv;q=0.9, */*;q=0.1", "text/csv"),
        ("image/png, */*;q=0.1", "application/json"),
        ("*/*, application/json;q=0", "application/x-npy"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("text/csv;q=nonsense", "text/csv"),
    ],
)
def test_accept_is_weighed(accept: str, chosen: str) -> None:
    offered = (media_types.JSON, media_types.NPY, media_types.CSV)
    assert media_types.negotiate(accept, offered, media_types.JSON) == chosen


def test_the_default_answer_is_the_settings_where_the_client_has_no_wish() -> None:
    assert (
        media_types.negotiate("*/*", (media_types.JSON, media_types.CSV), media_types.CSV) == media_types.CSV
    )


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "x"])
def test_nothing_acceptable_is_406(accept: str) -> None:
    with pytest.raises(RequestError) as caught:
        media_types.negotiate(accept, (media_types.JSON,), media_types.JSON)
    assert caught.value.status == 406


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv", "text/csv"),
        ("application/vnd.mine+json", "application/vnd.mine+json"),
        ("text/html, application/xml;q=0.9, */*;q=0.8", "text/html"),
        ("application/*", "application/json"),
    ],
)
def test_an_output_fn_gets_one_media_type(accept: str, given: str) -> None:
    assert media_types.handler_accept(accept, media_types.JSON) == given


def test_a_charset_is_not_the_handlers_business() -> None:
    assert media_types.without_charset("text/csv; charset=UTF-8") == "text/csv"
    assert media_types.without_charset("multipart/form-data; boundary=x") == "multipart/form-data; boundary=x"


IMAGE = [Spec("image", np.float32, (None, 2))]
TEXTS = [Spec("s", object, (None,))]
PAIR = [Spec("a", np.int32, (None,)), Spec("b", object, (None,))]


@pytest.mark.parametrize(
    ("body", "by_row"),
    [
        ({"instances": [[1, 2]]}, True),
        ({"instances": [{"image": [1, 2]}]}, True),
        ({"inputs": [[1, 2]]}, False),
        ({"inputs": {"image": [[1, 2]]}}, False),
        ([[1, 2]], True),
        ({"image": [1, 2]}, True),
    ],
)
def test_all_forms_of_tensorflows_json_mean_the_same(body: Any, by_row: bool) -> None:
    read = tensorflow_json.read(body, IMAGE)
    assert read.inputs["image"].tolist() == [[1, 2]]
    assert read.inputs["image"].dtype == np.float32
    assert read.by_row is by_row


def test_texts_and_base64_become_bytes() -> None:
    read = tensorflow_json.read({"instances": [{"a": 1, "b": "x"}, {"a": 2, "b": {"b64": "eQ=="}}]}, PAIR)
    assert read.inputs["b"].tolist() == [b"x", b"y"]


@pytest.mark.parametrize(
    ("body", "specs", "status", "message"),
    [
        ({"instances": []}, IMAGE, 400, "empty"),
        ({"instances": [[1, 2]], "inputs": [[1, 2]]}, IMAGE, 400, "both"),
        ({"instances": [[1, 2, 3]]}, IMAGE, 422, r"expected shape \(any, 2\), given \(1, 3\)"),
        ({"instances": [[1, 2], [3]]}, IMAGE, 400, "differ in length"),
        ({"instances": [["a", "b"]]}, IMAGE, 400, "are not numbers"),
        ({"instances": [[None, 1]]}, IMAGE, 400, "null"),
        ({"instances": [[1, 2]]}, PAIR, 400, "name them: a, b"),
        ({"instances": [{"a": 1}]}, PAIR, 400, "lacks b"),
        ({"instances": [{"a": 1, "b": "x"}, {"a": 1}]}, PAIR, 400, "instance 1"),
        ({"instances": [{"a": 1.5, "b": "x"}]}, PAIR, 400, "are not integers"),
        ({"instances": [{"a": 1, "b": {"b64": "?"}}]}, PAIR, 400, "Base64"),
        (
            {"instances": [1]},
            TEXTS,
            400,
            "do not form an array of texts: they contain a number at position 0",
        ),
        ({"instances": ["a", None]}, TEXTS, 400, "null at position 1"),
        ({"instances": ["a", ["b"]]}, TEXTS, 400, "a list at position 1"),
        ({"instances": [[1, 2]], "signature_name": 3}, IMAGE, 400, "signature_name"),
    ],
)
def test_what_a_signature_does_not_take_is_named(body: Any, specs: Any, status: int, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        tensorflow_json.read(body, specs)
    assert caught.value.status == status


def test_answers_have_tensorflow_servings_form() -> None:
    one = {"y": np.array([[1.0], [2.0]])}
    two = {"y": np.array([1, 2]), "name_bytes": np.array([b"a", b"b"], dtype=object)}
    assert json.loads(json_text.write(tensorflow_json.write(TensorAnswer(one)))) == {
        "predictions": [[1], [2]]
    }
    assert json.loads(json_text.write(tensorflow_json.write(TensorAnswer(one, by_row=False)))) == {
        "outputs": [[1], [2]]
    }
    assert json.loads(json_text.write(tensorflow_json.write(TensorAnswer(two)))) == {
        "predictions": [{"y": 1, "name_bytes": {"b64": "YQ=="}}, {"y": 2, "name_bytes": {"b64": "Yg=="}}]
    }


@pytest.mark.parametrize("codec", registry.CODECS, ids=lambda codec: codec.media_type)
def test_everything_follows_from_a_codecs_entry(codec: Codec) -> None:
    assert (codec.media_type in registry.READABLE) == (codec.read is not None)
    assert (codec.media_type in registry.WRITABLE) == (codec.write is not None)
    assert (codec.media_type in registry.STREAMABLE) == bool(codec.stream_rank)
    for suffix, media_type in codec.suffixes.items():
        assert registry.media_type_of_suffix(suffix) == media_type
        assert registry.codec_of(media_type) is codec


def test_every_media_type_belongs_to_one_codec() -> None:
    names = [name for codec in registry.CODECS for name in (codec.media_type, *codec.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("content_type", "codec"),
    [
        ("", registry.json.CODEC),
        ("application/geo+json; charset=utf-8", registry.json.CODEC),
        ("Text/CSV", registry.csv.CODEC),
        ("text/html", registry.text.TEXT),
        ("text/event-stream", registry.text.TEXT),
        ("video/mp4", registry.text.IMAGE),
        ("application/x-protobuf", None),
    ],
)
def test_a_content_type_finds_its_codec(content_type: str, codec: Codec | None) -> None:
    assert registry.codec_of(content_type) is codec
