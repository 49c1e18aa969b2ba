"""Names, regions and sizes of models, as people type them after `gpuproof gpus`."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpuproof.catalogue.catalogue.cache_path", lambda: tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795392000")  # 2026-11-23


@pytest.fixture
def gpuproof(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["gpus", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def types(table: str) -> list[str]:
    return [line.split()[0] for line in table.split("\n\n", maxsplit=1)[0].splitlines()[1:]]


# Names


def test_a_gpu_lists_the_types_that_have_it(gpuproof) -> None:
    code, out, _ = gpuproof("A100")
    assert code == 0
    assert types(out) == ["p4d.24xlarge", "p4de.24xlarge"]


def test_a_gpu_with_a_count_lists_the_types_with_as_many(gpuproof) -> None:
    _, out, _ = gpuproof("A10G:4..8", "L4:4..8", "--on", "ec2")
    _, same, _ = gpuproof("--gpu", "A10G,L4:4..8", "--on", "ec2")
    assert types(out) == types(same) != []


def test_a_family_lists_its_types(gpuproof) -> None:
    _, out, _ = gpuproof("p5", "g6f")
    assert {name.partition(".")[0] for name in types(out)} == {"p5", "g6f"}


def test_an_instance_type_is_shown(gpuproof) -> None:
    assert gpuproof("g5.xlarge")[1] == gpuproof("show", "g5.xlarge")[1]


def test_a_gpu_can_be_shown_with_its_rates_and_types(gpuproof) -> None:
    code, out, _ = gpuproof("show", "A100")
    assert code == 0
    assert out.startswith("A100-40GB: 40 GB HBM2 (NVIDIA Ampere, compute capability 8.0)")
    assert "312 bf16" in out
    assert "p4de.24xlarge" in out
    _, out, _ = gpuproof("show", "H100", "--json")
    assert [instance["type"] for instance in json.loads(out)["instances"]] == ["p5.4xlarge", "p5.48xlarge"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("A10", "A10G"), ("g4", "g4dn"), ("g5.xlage", "g5.xlarge"), ("H10", "H100"), ("sohw", "show")],
)
def test_an_unknown_name_is_wrong_usage_and_gets_the_nearest(gpuproof, word: str, meant: str) -> None:
    code, _, err = gpuproof(word)
    assert code == 2
    assert meant in err


def test_show_needs_a_name(gpuproof) -> None:
    code, _, err = gpuproof("show")
    assert code == 2
    assert "gpuproof gpus show g5.xlarge" in err


# Regions


def test_a_shown_type_lists_all_regions_with_their_prices(gpuproof) -> None:
    _, out, _ = gpuproof("g5.xlarge")
    rows = {line.split()[0]: line for line in out.split("\n\n")[1].splitlines()}
    assert len(rows) == 20
    assert "~" in rows["eu-west-2"]
    assert rows["eu-west-2"].split()[1:3] == ["London", "2"]


@pytest.mark.parametrize(
    "words", [("--region", "us-east-1,eu-west-2"), ("--region", "us-east-1", "--region", "eu-west-2")]
)
def test_several_regions_are_compared(gpuproof, words: tuple[str, ...]) -> None:
    _, out, _ = gpuproof("H100", *words)
    assert out.splitlines()[0].split()[:2] == ["TYPE", "REGION"]
    assert {line.split()[1] for line in out.split("\n\n")[0].splitlines()[1:]} == {"us-east-1", "eu-west-2"}
    _, out, _ = gpuproof("H100", *words, "--json")
    document = json.loads(out)
    assert document["regions"] == ["us-east-1", "eu-west-2"]
    assert {instance["region"] for instance in document["instances"]} == {"us-east-1", "eu-west-2"}


def test_all_regions_find_the_cheapest(gpuproof) -> None:
    _, out, _ = gpuproof("p5.4xlarge".partition(".")[0], "--region", "all", "--format", "csv")
    assert len({line.split(",")[1] for line in out.splitlines()[1:]}) > 8


def test_an_unknown_region_is_wrong_usage_and_the_nearest_is_suggested(gpuproof) -> None:
    code, out, err = gpuproof("--region", "us-esat-1")
    assert (code, out) == (2, "")
    assert "Did you mean us-east-1?" in err
    assert gpuproof("show", "g5.xlarge", "--region", "us-west2")[0] == 2


def test_a_gpu_that_a_region_lacks_is_offered_in_the_nearest(gpuproof) -> None:
    code, out, err = gpuproof("H100", "--region", "eu-west-1")
    assert (code, out) == (1, "")
    assert "H100 is not offered in eu-west-1; nearest: eu-west-2 (London), eu-north-1 (Stockholm)" in err
    assert "No instance types match" not in err


def test_a_filter_that_leaves_nothing_is_not_blamed_on_the_region(gpuproof) -> None:
    _, _, err = gpuproof("H100", "--region", "eu-west-2", "--max-price", "0.01")
    assert "not offered" not in err
    assert "No instance types match" in err


# Sizes


def test_memory_without_a_unit_is_in_gb(gpuproof) -> None:
    _, out, err = gpuproof("--gpu-memory", "24")
    assert types(out) == types(gpuproof("--gpu-memory", "24GB")[1])
    assert "--gpu-memory 24+ includes more" in err
    assert types(gpuproof("--gpu-memory", "24+")[1]) == types(gpuproof("--gpu-memory", "24GB+")[1])
    assert types(gpuproof("--gpu-memory", "24..48")[1]) == types(gpuproof("--gpu-memory", "24GB..48GB")[1])


def test_a_model_fits_where_its_weights_and_some_room_do(gpuproof) -> None:
    _, out, err = gpuproof("--fits", "70B@bf16")
    found = types(out)
    assert "g6e.12xlarge" in found  # 4 x 44.7 GiB
    assert "g5.24xlarge" not in found  # 4 x 22.4 GiB
    assert "140 GB of weights" in err
    assert (
        set(types(gpuproof("--fits", "70B@int4")[1]))
        > set(found)
        > set(types(gpuproof("--fits", "70B@adam")[1]))
    )


@pytest.mark.parametrize(
    ("text", "hint"), [("70B@bf61", "70B@bf16"), ("70", "70B@bf16"), ("B@bf16", "70B@bf16")]
)
def test_a_size_that_cannot_be_read_is_wrong_usage(gpuproof, text: str, hint: str) -> None:
    code, _, err = gpuproof("--fits", text)
    assert code == 2
    assert hint in err


# Frameworks


def test_a_framework_that_is_known_is_no_longer_said_to_run_nowhere(gpuproof) -> None:
    code, out, _ = gpuproof("--framework", "torch==2.1", "--gpu", "T4,H100")
    assert code == 0
    assert all(line.endswith(" native") for line in out.split("\n\n")[0].splitlines()[1:])


def test_unknown_support_is_not_reported_as_none(gpuproof) -> None:
    code, out, err = gpuproof("--framework", "torch==2.13+cu126", "--gpu", "T4")
    assert code == 3
    assert all(line.endswith(" unknown") for line in out.split("\n\n")[0].splitlines()[1:])
    assert "are not known" in err


# Prices


def test_derived_and_old_prices_are_marked(gpuproof) -> None:
    _, out, _ = gpuproof("g5", "--region", "eu-west-2")
    line = next(line for line in out.splitlines() if line.startswith("g5.xlarge"))
    assert " ~1.79 " in line
    assert "~ is derived from similar prices" in out
    _, out, _ = gpuproof("ml.m5.xlarge", "--region", "eu-west-3")
    assert "(observed 2025-04-04, more than a year old)" in out
    assert "SageMaker ~$" in out


def test_a_type_without_a_price_on_sagemaker_is_ordered_by_ec2s(gpuproof) -> None:
    _, out, _ = gpuproof("--on", "sagemaker", "--json", "--include-retired")
    rows = json.loads(out)["instances"]
    prices = [
        (row["sagemaker_price"] or row["ec2_price"] or {"usd_per_hour": 1e9})["usd_per_hour"] for row in rows
    ]
    assert prices == sorted(prices)
    assert any(row["sagemaker_price"] is None and row["ec2_price"] for row in rows)


def test_there_is_no_price_of_bare_metal_on_sagemaker(gpuproof) -> None:
    _, out, _ = gpuproof("T4", "--json")
    metal = next(instance for instance in json.loads(out)["instances"] if instance["type"] == "g4dn.metal")
    assert metal["sagemaker_price"] is None


def test_colours_mark_what_is_not_offered_any_more(gpuproof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, _ = gpuproof("K80", "--include-retired")
    assert "\x1b[2mretired\x1b[0m" in out
