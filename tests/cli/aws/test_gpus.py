"""`gpuproof gpus` and `gpuproof gpus show`, as a person types them."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpuproof.catalogue.catalogue.cache_path", lambda: tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def gpuproof(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["gpus", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def types(table: str) -> list[str]:
    return [line.split()[0] for line in table.split("\n\n", maxsplit=1)[0].splitlines()[1:]]


def test_the_table_has_labelled_prices_of_ec2_and_sagemaker(gpuproof) -> None:
    code, out, err = gpuproof()
    assert (code, err) == (0, "")
    headers = out.splitlines()[0]
    for word in (
        "TYPE",
        "GPUS",
        "EACH",
        "ARCH",
        "VCPU",
        "RAM",
        "EC2 $/H",
        "SAGEMAKER",
        "$/GPU",
        "$/TFLOP",
        "STATUS",
    ):
        assert word in headers
    assert "A listed price does not guarantee capacity." in out
    assert "us-east-1" in out


def test_a_fraction_is_shown_as_one_and_its_gpu_costs_more_than_it(gpuproof) -> None:
    _, out, _ = gpuproof("--gpu", "L4", "--sort", "name")
    line = next(line for line in out.splitlines() if line.startswith("g6f.large "))
    assert "1/8 L4" in line
    assert " 1.62 " in line


def test_filters_work_together(gpuproof) -> None:
    code, out, _ = gpuproof(
        "--gpu",
        "A10G,L4",
        "--count",
        "1",
        "--for",
        "training",
        "--region",
        "us-west-2",
        "--max-price",
        "$1.2",
    )
    assert code == 0
    assert types(out) == ["ml.g6.xlarge"]


def test_a_count_with_the_gpu_counts(gpuproof) -> None:
    _, out, _ = gpuproof("--gpu", "A10G:4..8")
    assert types(out) == ["g5.12xlarge", "g5.24xlarge", "g5.48xlarge"]


def test_a_framework_shows_how_it_runs(gpuproof) -> None:
    code, out, _ = gpuproof("--framework", "tensorflow==2.11", "--gpu", "H100,T4", "--count", "1")
    assert code == 0
    runs = {line.split()[0]: line.split()[-1] for line in out.split("\n\n")[0].splitlines()}
    assert (runs["TYPE"], runs["g4dn.xlarge"], runs["p5.4xlarge"]) == ("RUNS", "native", "ptx")


def test_a_framework_leaves_out_what_it_does_not_run_on(gpuproof) -> None:
    _, out, _ = gpuproof("--framework", "torch==2.11")
    assert "p3dn.24xlarge" not in types(out)
    assert "g5g.xlarge" not in types(out)


def test_an_unknown_version_warns_filters_nothing_and_leaves_undecided(gpuproof) -> None:
    code, out, err = gpuproof("--framework", "torch==9.9")
    assert code == 3
    assert "p3dn.24xlarge" in types(out)
    assert "the newest known is torch 2.15" in err


def test_a_requirement_that_is_none_is_wrong_usage(gpuproof) -> None:
    code, _, err = gpuproof("--framework", "torch>=2")
    assert code == 2
    assert "torch==2.11" in err


def test_an_unknown_gpu_gets_the_nearest_names(gpuproof) -> None:
    code, _, err = gpuproof("--gpu", "A10")
    assert code == 2
    assert "A10G" in err


def test_24_gib_excludes_cards_of_24_gb_with_a_note(gpuproof) -> None:
    _, out, err = gpuproof("--gpu-memory", "24GiB+")
    assert "g5.xlarge" not in types(out)
    assert "A10G (22888 MiB)" in err
    _, out, err = gpuproof("--gpu-memory", "24GB+")
    assert "g5.xlarge" in types(out)
    assert err == ""


def test_nothing_found_is_exit_code_1_and_no_empty_table(gpuproof) -> None:
    code, out, err = gpuproof("--gpu", "T4", "--max-price", "0.01")
    assert (code, out) == (1, "")
    assert "No instance types match" in err


def test_a_region_without_data_is_named(gpuproof) -> None:
    _, _, err = gpuproof("--region", "us-gov-west-1", "--gpu", "T4")
    assert "gpuproof catalogue refresh --region us-gov-west-1" in err


def test_a_use_of_sagemaker_on_ec2_is_wrong_usage(gpuproof) -> None:
    code, _, err = gpuproof("--for", "training", "--on", "ec2")
    assert code == 2
    assert "--for training" in err


def test_retired_types_can_be_looked_at(gpuproof) -> None:
    _, out, _ = gpuproof("--include-retired", "--gpu", "K80")
    assert types(out) == ["p2.xlarge", "p2.8xlarge", "p2.16xlarge"]
    assert "retired" in out


def test_a_place_decides_names_and_whose_price_counts(gpuproof) -> None:
    _, out, _ = gpuproof("--on", "ec2", "--gpu", "T4")
    assert "SAGEMAKER" not in out.splitlines()[0]
    _, out, _ = gpuproof("--on", "sagemaker", "--gpu", "T4")
    assert all(name.startswith("ml.") for name in types(out))
    assert "SageMaker's price" in out


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("memory", "p6-b300.48xlarge"),
        ("per-tflop", "g6e.xlarge"),
        ("per-gpu", "g5g.xlarge"),
        ("name", "g4dn.2xlarge"),
        ("price", "g6f.large"),
    ],
)
def test_each_order_has_its_first(gpuproof, sort: str, first: str) -> None:
    _, out, _ = gpuproof("--sort", sort)
    assert types(out)[0] == first


def test_a_narrow_terminal_omits_columns_with_a_note(gpuproof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = gpuproof("--gpu", "L40S")
    table, legend = out.split("\n\n")
    assert "g6e.16xlarge" in types(out)
    assert all(len(line) <= 80 for line in table.splitlines())
    assert "hidden in this narrow terminal: RAM" in legend


def test_json_is_versioned_and_in_bytes(gpuproof) -> None:
    _, out, _ = gpuproof("--gpu", "A10G:1", "--format", "json")
    document = json.loads(out)
    assert document["version"] == 1
    first = document["instances"][0]
    assert (first["type"], first["gpu_memory_bytes"]) == ("g5.xlarge", 22888 * 2**20)
    assert first["ec2_price"] == {
        "usd_per_hour": 1.006,
        "usd_per_hour_max": None,
        "region": "us-east-1",
        "use": "compute",
        "market": "on-demand",
        "kind": "observed",
        "as_of": "2026-07-20",
        "source": "karpenter-2026-07",
    }


def test_csv_has_a_line_a_type(gpuproof) -> None:
    _, out, _ = gpuproof("--gpu", "A10G", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert rows[0]["ec2_price_usd_per_hour"] == "1.006"


def test_spot_prices_are_shown_where_known(gpuproof) -> None:
    _, out, _ = gpuproof("--spot", "--gpu", "L40S", "--region", "us-east-2")
    assert types(out)[0] == "g6e.xlarge"
    assert " 0.53 " in out


def test_a_cache_that_cannot_be_read_is_named(gpuproof, tmp_path: Path) -> None:
    (tmp_path / "catalogue" / "prices").mkdir(parents=True)
    (tmp_path / "catalogue" / "prices" / "us-east-1.csv").write_text("instance_type\ng5.xlarge\n")
    code, out, err = gpuproof("--gpu", "T4")
    assert code == 0
    assert types(out)
    assert "us-east-1.csv cannot be read; using the shipped data" in err


# show


def test_ml_t3_2xlarge_has_no_gpu_is_valid_for_some_uses_and_has_alternatives(gpuproof) -> None:
    code, out, _ = gpuproof("show", "ml.t3.2xlarge")
    assert code == 0
    assert out.startswith("ml.t3.2xlarge: no GPU\n")
    assert "for training, processing, notebook, studio, cluster; not for endpoint, transform" in out
    assert "ml.g4dn.xlarge" in out


def test_ml_p3_2xlarge_is_one_v100_retired_with_what_dropped_it_and_successors(gpuproof) -> None:
    code, out, _ = gpuproof("show", "ml.p3.2xlarge")
    assert code == 0
    assert out.startswith("ml.p3.2xlarge: 1 V100-16GB, 16.0 GiB (Volta, compute capability 7.0)")
    assert "retired on EC2" in out
    assert "no: 2.11 to 2.15" in out
    assert "torch 2.11+cu126 still supports it" in out
    assert "the API still accepts it, but it is no longer available" in out
    assert "ml.g4dn.xlarge" in out
    assert "price lists still contain retired types" in out


def test_a_current_type_shows_its_quota_with_the_command_and_no_replacement(gpuproof) -> None:
    _, out, _ = gpuproof("show", "ml.g5.xlarge")
    assert "L-B6D80D9C" in out
    assert "aws service-quotas request-service-quota-increase" in out
    assert "servicequotas/home/services/sagemaker" in out
    assert "\ninstead" not in out


def test_a_type_that_a_use_does_not_accept_gets_replacements_for_it(gpuproof) -> None:
    _, out, _ = gpuproof("show", "ml.p4d.24xlarge", "--for", "processing")
    assert "\ninstead" in out


def test_a_slice_is_called_one(gpuproof) -> None:
    _, out, _ = gpuproof("show", "g6f.large")
    assert out.startswith("g6f.large: 1/8 of one L4, seen as one GPU, 2.8 GiB")


def test_a_type_of_another_region_is_reported_with_its_regions(gpuproof) -> None:
    _, out, _ = gpuproof("show", "g6.xlarge", "--region", "eu-west-1")
    assert "not in eu-west-1; nearest: eu-west-2 (London), " in out


def test_an_accelerator_that_is_not_a_gpu_is_named(gpuproof) -> None:
    _, out, _ = gpuproof("show", "ml.trn1.2xlarge")
    assert out.startswith("ml.trn1.2xlarge: no GPU (but trainium)")


def test_a_type_that_only_ec2_has_is_reported_as_such(gpuproof) -> None:
    code, _, err = gpuproof("show", "ml.g5g.xlarge")
    assert code == 2
    assert "none of its APIs accepts it, but EC2 has g5g.xlarge" in err


def test_an_unknown_type_gets_the_nearest_names(gpuproof) -> None:
    code, _, err = gpuproof("show", "g5.xlage")
    assert code == 2
    assert "g5.xlarge" in err


def test_show_in_json_is_versioned(gpuproof) -> None:
    _, out, _ = gpuproof("show", "ml.g5.xlarge", "--format", "json")
    document = json.loads(out)
    assert document["version"] == 1
    assert document["instance"]["gpu_model"] == "A10G"
    assert document["frameworks"]["torch 2.15"]["kind"] == "native"
    assert document["quota"]["code"] == "L-B6D80D9C"


@pytest.mark.parametrize(
    "name",
    [
        "g5.xlarge",
        "p2.16xlarge",
        "p6e-gb200.36xlarge",
        "ml.p6e-gb200.36xlarge",
        "dl1.24xlarge",
        "m5.large",
        "g4ad.xlarge",
    ],
)
def test_any_known_type_can_be_shown(gpuproof, name: str) -> None:
    for form in ("text", "json"):
        code, out, err = gpuproof("show", name, "--format", form)
        assert (code, err) == (0, "")
        assert name in out


@pytest.mark.slow
def test_every_gpu_type_can_be_shown_in_both_places(gpuproof) -> None:
    from gpuproof.catalogue import Catalogue

    catalogue = Catalogue.load()
    for ec2_type in catalogue.tables.gpu_instances:
        for name in (ec2_type, f"ml.{ec2_type}"):
            if catalogue.instance(name):
                assert gpuproof("show", name)[0] == 0


# Start-up


def test_listing_imports_neither_boto3_nor_pydantic_nor_a_framework() -> None:
    program = (
        "import sys; from gpuproof.cli.main import main; main(['gpus', '--for', 'training'])\n"
        "heavy = {'boto3', 'botocore', 'pydantic', 'yaml', 'torch', 'tensorflow', 'numpy'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert (found.returncode, found.stderr) == (0, "")
