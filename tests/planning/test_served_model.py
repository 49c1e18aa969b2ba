"""Plans of served models: what is taken for one, and what follows from the time of a request."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import gpuproof
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.planning.document import to_json
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.script_plan import make_plan, requests_per_second
from gpuproof.planning.served_model import is_served_model, served_model
from gpuproof.planning.time import estimate_step
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import Input
from support.plan_examples import gpu, training

HANDLER = """
import json
import torch


def model_fn(model_dir):
    return torch.nn.Linear(8, 4).to("cuda" if torch.cuda.is_available() else "cpu")


def input_fn(body, content_type):
    return torch.tensor(json.loads(body))


def predict_fn(data, model):
    return model(data.cuda())
"""
SERVING = replace(training(4, host_s=0.002), mode="serving", optimizer=None)
SERVING = replace(SERVING, input=replace(SERVING.input, steps_per_epoch=None))


def test_the_body_and_the_response_of_a_request_are_handled_before_and_after_the_gpu() -> None:
    step = estimate_step(SERVING, gpu("A10G"))
    assert step.step.value == pytest.approx(max(step.gpu_s, step.launch_s) + 0.002)
    assert step.bound == "input"
    without = estimate_step(replace(SERVING, input=Input(samples=4)), gpu("A10G"))
    assert without.step.value == pytest.approx(max(step.gpu_s, step.launch_s))


def test_costs_are_those_of_a_million_requests_and_each_gpu_answers_its_own() -> None:
    catalogue = Catalogue.load()
    for gpus in (1, 4):
        plan = make_plan(catalogue, TracedSizes(SERVING, None), Conditions(gpus=gpus))
        assert (plan.workload.steps, plan.workload.epochs) == (1_000_000, None)
        for estimate in plan.gpus:
            rate = requests_per_second(estimate, gpus)
            assert rate.value == pytest.approx(gpus / estimate.step.step.value)
            assert rate.low < rate.value < rate.high
            for offer in estimate.offers:
                assert offer.seconds.value == pytest.approx(1_000_000 / rate.value)
                price = offer.priced.price.usd_per_hour
                assert offer.usd.value == pytest.approx(price / 3600 * 1_000_000 / rate.value)


def test_endpoints_have_their_own_prices() -> None:
    catalogue = Catalogue.load()
    plan = make_plan(catalogue, TracedSizes(SERVING, None), Conditions(service="sagemaker"))
    offers = [offer for gpu in plan.gpus for offer in gpu.offers]
    assert offers
    for offer in offers:
        price = catalogue.price(offer.priced.instance.name, "us-east-1", "endpoint", "on-demand")
        assert offer.priced.price == price


def test_the_lowest_price_per_hour_is_recommended() -> None:
    plan = make_plan(Catalogue.load(), TracedSizes(SERVING, None), Conditions())
    assert plan.recommendation is not None
    hourly = [
        offer.priced.price.usd_per_hour
        for gpu in plan.gpus
        if gpu.fit.fit == "fits"
        for offer in gpu.offers
        if offer.priced.market == "on-demand" and offer.priced.instance.arch == "x86_64"
    ]
    assert plan.recommendation.offer.priced.price.usd_per_hour == min(hourly)
    assert "per hour" in plan.recommendation.reason


def test_what_costs_less_per_request_is_named_beside_it() -> None:
    trace = replace(SERVING, input=Input(samples=4))
    # A request of 20 TFLOPs: large GPUs take so much less time that they cost less.
    trace = replace(trace, operators=[replace(trace.operators[0], flops=2e13, gemm=(1, 20000, 20000, 25000))])
    plan = make_plan(Catalogue.load(), TracedSizes(trace, None), Conditions())
    assert plan.recommendation is not None
    assert "for a million requests in close succession" in plan.recommendation.reason


def test_the_document_has_requests_per_second() -> None:
    plan = make_plan(Catalogue.load(), TracedSizes(SERVING, None), Conditions())
    document = to_json(plan, "inference.py")
    assert (document["mode"], document["steps"]) == ("serving", 1_000_000)
    assert document["gpus"][0]["requests_per_second"]["value"] > 0
    script = make_plan(Catalogue.load(), TracedSizes(training(4), None), Conditions())
    assert to_json(script, "train.py")["gpus"][0]["requests_per_second"] is None


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("inference.py", HANDLER, True),
        ("handler.py", HANDLER, True),
        ("train.py", HANDLER + "\nif __name__ == '__main__':\n    print('training')\n", False),
        ("inference.py", "import torch\n", False),
        ("train.py", "import torch\n", False),
        ("model.keras", "", True),
        ("model.tar.gz", "", True),
        ("gpuproof.yaml", "kind: training\n", False),
    ],
)
def test_what_is_planned_as_a_served_model(tmp_path: Path, name: str, content: str, expected: bool) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert is_served_model(path) is expected


def test_a_folder_with_a_job_file_is_a_job_and_one_with_a_handler_a_model(tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text(HANDLER)
    assert is_served_model(tmp_path)
    (tmp_path / "gpuproof.yaml").write_text("kind: training\n")
    assert not is_served_model(tmp_path)


def test_a_handler_in_code_belongs_to_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    handler = tmp_path / "code" / "inference.py"
    handler.write_text(HANDLER)
    request = tmp_path / "rows.csv"
    request.write_text("1,2\n")
    found = served_model(handler, tmp_path / "scratch", code=None, request=request, content_type=None)
    assert (found.folder, found.request, found.content_type) == (tmp_path, request, "text/csv")


def test_wrong_models_are_errors_that_say_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--request"):
        served_model(tmp_path, tmp_path, code=None, request=tmp_path / "none.json", content_type=None)
    with pytest.raises(UsageError, match="no file or folder"):
        served_model(tmp_path / "none", tmp_path, code=None, request=None, content_type=None)
    with pytest.raises(GPUproofError, match="contains no model"):
        served_model(tmp_path, tmp_path, code=None, request=None, content_type=None)
    (tmp_path / "inference.py").write_text(HANDLER)
    with pytest.raises(UsageError, match="epochs: only for scripts"):
        gpuproof.plan(tmp_path / "inference.py", epochs=3)


@pytest.mark.slow
def test_a_model_archive_with_its_handler_is_planned_from_python(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps([[0.5] * 8] * 2))
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        member = tarfile.TarInfo("code/inference.py")
        member.size = len(HANDLER)
        file.addfile(member, io.BytesIO(HANDLER.encode()))
    plan = gpuproof.plan(archive, request=request, on="sagemaker", gpus=4)
    assert (plan.trace.mode, plan.trace.input.samples, plan.trace.parameters) == ("serving", 2, 36)
    assert plan.recommendation is not None
    assert plan.recommendation.instance_type.startswith("ml.")
    assert plan.gpus[0].largest_batch is not None
    assert plan.warnings == ()


@pytest.mark.slow
def test_a_handler_of_another_name_and_a_model_beside_it(tmp_path: Path) -> None:
    handler = tmp_path / "my_handler.py"
    handler.write_text(HANDLER.replace("return model(data.cuda())", "return model(data.cuda()).mean()"))
    request = tmp_path / "request.json"
    request.write_text(json.dumps([[0.5] * 8]))
    plan = gpuproof.plan(handler, request=request)
    assert plan.trace.parameters == 36
    assert any("one row for each row" in warning for warning in plan.warnings)
