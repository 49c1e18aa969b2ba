"""Rows of images are in their sources, and defaults come from such rows and run on every documented host."""

import importlib.util
import json
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue, JobKind
from gpuproof.catalogue.host_drivers import (
    default_host,
    named_hosts,
    oldest_driver,
    runs_image,
    runs_with_compat,
)
from gpuproof.util.versions import version_key

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
CATALOGUE = Catalogue.load()
TABLES = CATALOGUE.tables
EXCERPTS = json.loads((Path(__file__).parent / "excerpts/dlc_docs.json").read_text())

_SPEC = importlib.util.spec_from_file_location("check_image_sources", ROOT / "tools/check_image_sources.py")
assert _SPEC is not None
assert _SPEC.loader is not None
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)


def test_every_confirmed_row_of_awss_documentation_is_as_its_excerpt_says() -> None:
    rows = tool.read_rows("images")
    checked = [row for row in rows if row["source"].startswith("dlc-docs") and row["confirmed"]]
    assert len(checked) > 50
    assert tool.documented_problems(rows, EXCERPTS) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("tag", "2.15.0-cu133-amzn2023-sagemaker"), ("cuda", "12.9"), ("patched_until", "2030-01-01")],
)
def test_a_row_that_its_excerpt_does_not_have_is_named(column: str, value: str) -> None:
    row = next(row for row in tool.read_rows("images") if row["tag"] == "2.14.0-cu133-amzn2023-sagemaker")
    assert tool.documented_problems([row], EXCERPTS) == []
    assert len(tool.documented_problems([{**row, column: value}], EXCERPTS)) == 1
    assert tool.documented_problems([{**row, column: value, "confirmed": ""}], EXCERPTS) == []


def test_excerpts_name_their_commit_and_licence() -> None:
    assert "Apache-2.0" in EXCERPTS["license"]
    known = " ".join(source.what for source in TABLES.sources.values())
    assert all(image["commit"] in known for image in EXCERPTS["images"])


GPU_TYPES = sorted(
    name
    for name in (f"ml.{ec2}" for ec2 in TABLES.gpu_instances)
    if (instance := CATALOGUE.instance(name)) is not None and instance.accelerator == "gpu"
)
KINDS: tuple[JobKind, ...] = ("training", "processing", "endpoint", "transform")


@pytest.mark.parametrize("use", KINDS)
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "huggingface"])
def test_a_default_is_confirmed_and_runs_on_every_documented_host(framework: str, use: JobKind) -> None:
    for name in GPU_TYPES:
        found = CATALOGUE.image(framework, None, use, name, REGION)
        instance = CATALOGUE.instance(name)
        if found is None or instance is None:
            continue
        assert found.row.confirmed, name
        floor = CATALOGUE.driver_floor(found.row.cuda) if found.row.cuda else None
        if floor is None:
            continue
        gpu = CATALOGUE.gpu(instance.gpu_model or "")
        minimum = max(version_key(floor.minimum)[0], (gpu and gpu.driver_first) or 0)
        if use in ("training", "processing"):
            drivers = [oldest_driver(TABLES.host_amis, "training", instance.family, gpu)]
        else:
            # The request names the host image, see `choose_endpoint_image`.
            drivers = [
                row.driver
                for row in named_hosts(TABLES.host_amis, "transform" if use == "transform" else "endpoint")
            ]
        if max(drivers) < ((gpu and gpu.driver_first) or 0):
            continue  # no image helps: `deploy` and `transform` refuse the type
        assert any(driver >= minimum or runs_with_compat(driver, floor, gpu) for driver in drivers), (
            name,
            found.uri,
            drivers,
        )


def test_an_unconfirmed_row_is_found_by_its_version_and_never_a_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newest = CATALOGUE.image("pytorch", None, "training", "ml.g5.xlarge", REGION)
    assert newest is not None
    rows = [row._replace(confirmed="") if row == newest.row else row for row in TABLES.images]
    changed = Catalogue.load()
    monkeypatch.setitem(changed.tables.__dict__, "images", tuple(rows))
    other = changed.image("pytorch", None, "training", "ml.g5.xlarge", REGION)
    assert other is not None
    assert version_key(other.row.version) < version_key(newest.row.version)
    named = changed.image("pytorch", newest.row.version, "training", "ml.g5.xlarge", REGION)
    assert named is not None
    assert named.row.tag == newest.row.tag


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [(580, "13.3"), (535, "13.3"), (525, "12.8"), (470, "12.8")],
)
def test_a_driver_that_this_account_has_seen_decides_the_default(driver: int, cuda: str) -> None:
    found = CATALOGUE.image("pytorch", None, "training", "ml.g5.xlarge", REGION, driver)
    assert found is not None
    floor = CATALOGUE.driver_floor(found.row.cuda)
    assert floor is not None
    assert version_key(found.row.cuda) >= version_key(cuda)
    assert driver >= version_key(floor.minimum)[0] or runs_with_compat(driver, floor, CATALOGUE.gpu("A10G"))


def test_a_training_host_older_than_535_has_never_been_documented() -> None:
    host = default_host(TABLES.host_amis, "training", "g4dn")
    assert host is not None
    assert host.driver == 535
    floor, gpu = CATALOGUE.driver_floor("13.3"), CATALOGUE.gpu("T4")
    assert runs_image(TABLES.host_amis, "training", "g4dn", floor, gpu)
    assert not runs_image(TABLES.host_amis, "training", "g4dn", floor, gpu, seen=470)
    assert runs_image(TABLES.host_amis, "training", "g4dn", CATALOGUE.driver_floor("12.8"), gpu, seen=470)
