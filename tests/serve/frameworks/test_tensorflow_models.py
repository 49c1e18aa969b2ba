"""Which model, version and method a client of TensorFlow Serving's API asks for."""

from __future__ import annotations

import pytest

from gpuproof.serve.errors import RequestError
from gpuproof.serve.frameworks.tensorflow_models import ModelSet, Target, read_target

MODELS = ModelSet({"cats": {1: "cats 1", 12: "cats 12"}, "dogs": {3: "dogs 3"}}, "cats", "pets")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", Target()),
        ("tfs-model-name=dogs", Target("dogs")),
        ("tfs-model-name=dogs,tfs-model-version=3,tfs-method=regress", Target("dogs", "3", "regress")),
        ("trace=7, tfs-model-version=00000123", Target(version="00000123")),
    ],
)
def test_custom_attributes_select_model_version_and_method(attributes: str, expected: Target) -> None:
    assert read_target(attributes) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target(), "cats 12"),
        (Target("pets"), "cats 12"),
        (Target(version="1"), "cats 1"),
        (Target(version="00000001"), "cats 1"),
        (Target("dogs"), "dogs 3"),
    ],
)
def test_the_requested_model_is_found(target: Target, expected: str) -> None:
    key, model = MODELS.find(target)
    assert model == MODELS.get(key) == expected


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target("birds"), "no model 'birds'; the models are cats, dogs"),
        (Target("dogs", "1"), "no version 1 of dogs; the versions are 3"),
        (Target("dogs", "latest"), "no version latest of dogs"),
        (Target("dogs", "9" * 5000), "no version 999"),
    ],
)
def test_an_unknown_model_or_version_is_404(target: Target, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        MODELS.find(target)
    assert caught.value.status == 404


def test_an_unknown_method_is_400() -> None:
    with pytest.raises(RequestError, match=r"'explain'.*predict, regress, classify") as caught:
        Target(method="explain").check_method()
    assert caught.value.status == 400
