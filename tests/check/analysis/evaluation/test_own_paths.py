"""Paths that a module makes of its own file and of the working directory."""

from pathlib import Path

import pytest

from gpuproof.app.check import CheckRequest, check_files
from support.check_helpers import value_of, write_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('from pathlib import Path\nx = Path(__file__).parent / "src"', "src"),
        (
            'from pathlib import Path\nROOT = Path(__file__).resolve().parents[1]\nx = str(ROOT / "src")',
            "../src",
        ),
        ('from pathlib import Path\nx = (Path(__file__).parent.parent / "src").as_posix()', "../src"),
        ('import os\nHERE = os.path.dirname(os.path.abspath(__file__))\nx = f"{HERE}/src"', "src"),
        ('import os\nx = os.path.join(os.path.dirname(__file__), "..", "src")', "../src"),
        ('import os\nx = os.path.join(os.path.dirname(os.path.dirname(__file__)), "src")', "../src"),
        ('import os\nx = os.path.join(os.getcwd(), "src")', "src"),
        ('from pathlib import Path\nx = Path.cwd().parent / "src"', "../src"),
    ],
)
def test_a_path_from_the_own_file_is_relative_to_its_folder(text: str, expected: str) -> None:
    value = value_of(text)
    assert (value.certainty, value.value) == ("known", expected)


def test_a_path_after_a_scheme_is_unknown() -> None:
    value = value_of('from pathlib import Path\nx = f"file://{Path(__file__).parent}/data"')
    assert (value.certainty, value.prefix) == ("unknown", "file://")


def test_a_folder_of_a_shared_module_is_relative_to_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(
        tmp_path,
        {
            "jobs/paths.py": 'from pathlib import Path\n\nSOURCE = str(Path(__file__).parent.parent / "training")\n',
            "launch.py": (
                "from sagemaker.pytorch import PyTorch\nfrom jobs.paths import SOURCE\n\n"
                'PyTorch(entry_point="tarin.py", source_dir=SOURCE, instance_count=1, instance_type="ml.g5.xlarge")\n'
            ),
            "training/train.py": "print(1)\n",
        },
    )
    monkeypatch.chdir(tmp_path)
    hits = check_files(CheckRequest(select=("SM123",))).hits
    assert [hit.finding.message for hit in hits] == [
        "`tarin.py` does not exist in `training`: the SDK raises ValueError before anything starts."
    ]
