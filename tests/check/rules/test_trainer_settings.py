"""Arguments of Trainers that come from settings files and commands."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files

PARSER = (
    "import sys\n"
    "from transformers import HfArgumentParser, TrainingArguments\n"
    "parser = HfArgumentParser(TrainingArguments)\n"
    "(arguments,) = parser.parse_json_file(sys.argv[1])\n"
)
CLI = "from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n"


def found(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> list[tuple[str, str, int]]:
    write_files(folder, files)
    monkeypatch.chdir(folder)
    hits = check_here(".", select=("HF", "LT", "PT124")).hits
    return [(hit.code, hit.span.unit.name or hit.span.unit.path, hit.span.line) for hit in hits]


def test_a_settings_file_of_hfargumentparser_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        '{\n"output_dir": "out",\n"num_train_epochs": 3,\n"bf16": true,\n"no_cuda": true,\n"fp16": true\n}\n'
    )
    assert sorted(found(tmp_path, monkeypatch, {"train.py": PARSER, "args.json": settings})) == [
        ("HF101", "args.json", 5),
        ("HF102", "args.json", 6),
        ("HF109", "args.json", 5),
    ]


def test_other_json_files_are_no_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not found(
        tmp_path, monkeypatch, {"train.py": PARSER, "package.json": '{"no_cuda": true, "name": "web"}'}
    )


def test_the_trainer_in_a_settings_file_of_lightningcli_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "main.py": CLI,
        "requirements.txt": "lightning==2.5.0\n",
        "config.yaml": "trainer:\n  gpus: 4\n  max_epoch: 3\nmodel:\n  lr: 0.1\n",
    }
    assert sorted(found(tmp_path, monkeypatch, files)) == [
        ("LT101", "config.yaml", 3),
        ("PT124", "config.yaml", 2),
    ]
