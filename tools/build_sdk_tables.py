"""Generates the tables of `gpuproof check` from sagemaker v1, v2, v3 and botocore.

    python tools/build_sdk_tables.py            install each version in its own environment and write the tables
    python tools/build_sdk_tables.py --compare  print which tables would change, without writing them
    python tools/build_sdk_tables.py --keep DIR keep the environments in DIR for the next run

Requires `uv` and a package index; takes two minutes the first time. Makes no AWS calls.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import build_sdk_tables_changes as changes
import build_sdk_tables_pack as pack

HERE = Path(__file__).parent
TABLES = HERE.parent / "src" / "gpuproof" / "linter" / "data"
PACKAGES = {
    # The last v1 release requires old versions of its dependencies.
    "v1": ["sagemaker==1.72.1", "protobuf<3.21", "numpy<2", "setuptools<70"],
    "v2": ["sagemaker==2.257.7"],
    "v3": ["sagemaker==3.27.0"],
    "botocore_old": ["botocore==1.40.60"],
    "botocore_new": ["botocore==1.40.76"],
}
PYTHON = "3.11"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder of the environments; created if missing"
    )
    parser.add_argument(
        "--compare", action="store_true", help="write nothing; exit with 1 if a table would change"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        pythons = {name: environment(arguments.keep or Path(scratch), name) for name in PACKAGES}
        written = Path(scratch, "tables")
        written.mkdir()
        write_tables(pythons, written)
        differing = [path.name for path in sorted(written.iterdir()) if differs(path, TABLES / path.name)]
        if not arguments.compare:
            for name in differing:
                shutil.copyfile(written / name, TABLES / name)
    print(f"{'Differing' if arguments.compare else 'Written'}: {', '.join(differing) or 'none'}")
    return int(arguments.compare and bool(differing))


def environment(folder: Path, name: str) -> Path:
    """The interpreter of the environment for one version; created if missing."""
    root = folder / name
    python = root / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", PYTHON, str(root)], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), *PACKAGES[name]]
        subprocess.run(install, check=True)
    return python


def write_tables(pythons: dict[str, Path], folder: Path) -> None:
    """Run the probes and write all tables into a folder."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    seen = {name: probe(pythons[name], "build_sdk_tables_walk.py") for name in ("v1", "v2", "v3")}
    facts = probe(pythons["v2"], "build_sdk_tables_v2_facts.py")
    wanted = {"v2": pack.V2_SIGNATURES, "v3": pack.V3_SIGNATURES}
    for name, parts in wanted.items():
        source = f"the package sagemaker {seen[name]['version']}, read by tools/build_sdk_tables.py"
        pack.write_table(
            folder / f"{name}.json", pack.sdk_table(seen[name], parts, name == "v3", source, today)
        )
    v1, v2, v3 = seen["v1"], seen["v2"], seen["v3"]
    origin = f"sagemaker {v1['version']} and {v2['version']}"
    write_rows(
        folder / "changes_v2.csv",
        changes.Change._fields,
        changes.v1_to_v2(v1, v2, facts),
        origin,
        today,
    )
    curated = probe(pythons["v3"], "build_sdk_tables_v3_facts.py")
    replacements = changes.v2_to_v3(v2, v3, curated)
    proven = probe(
        pythons["v3"], "build_sdk_tables_v3_facts.py", sorted({row.statement for row in replacements} - {""})
    )
    write_rows(
        folder / "changes_v3.csv",
        changes.Replacement._fields,
        [row for row in replacements if proven.get(row.statement, True)],
        f"sagemaker {v2['version']} and {v3['version']}",
        today,
    )
    write_rows(
        folder / "distribution.csv",
        ("call", "keys"),
        [(call, " ".join(keys)) for call, keys in sorted(facts["distribution"].items())],
        f"sagemaker {v2['version']}, run",
        today,
    )
    needs = [tuple(row[key] for key in ("call", "needs", "or", "unless", "says")) for row in facts["needs"]]
    write_rows(
        folder / "needs.csv",
        ("call", "needs", "or", "unless", "says"),
        needs,
        f"sagemaker {v2['version']}, run",
        today,
    )
    objects = {"v2": pack.V2_OBJECTS, "v3": pack.V3_OBJECTS}
    write_rows(
        folder / "attributes.csv",
        ("sdk", "class", "base", "names", "returns"),
        [
            (name, *(row[key] for key in ("class", "base", "names", "returns")))
            for name, parts in objects.items()
            for row in probe(pythons[name], "build_sdk_tables_attributes.py", parts)["classes"]
        ],
        f"sagemaker {v2['version']} and {v3['version']}",
        today,
    )
    old, new = (
        probe(pythons[name], "build_sdk_tables_botocore.py") for name in ("botocore_old", "botocore_new")
    )
    write_rows(
        folder / "botocore_history.csv",
        ("operation", "member", "required_up_to", "optional_from"),
        [
            (operation, member, old["version"], new["version"])
            for operation, members in sorted(old["required"].items())
            for member in members
            if operation in new["required"] and member not in new["required"][operation]
        ],
        "botocore service models",
        today,
    )


def probe(python: Path, script: str, given: Any = None) -> Any:
    """Run a script in an environment, with JSON on stdin, and return the JSON that it prints."""
    # The SDK requires a region on import; it must not read the configuration of this machine or send telemetry.
    surroundings = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": "/nonexistent",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [str(python), str(HERE / script)],
        input=json.dumps(given),
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        sys.exit(f"{script} failed in {python}:\n{ran.stdout}\n{ran.stderr}")
    return json.loads(ran.stdout[ran.stdout.index("{") :])


def write_rows(
    path: Path, columns: Iterable[str], rows: Iterable[Iterable[str]], source: str, today: str
) -> None:
    """Write a CSV file whose first line is a comment with the source."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# source: {source}, read by tools/build_sdk_tables.py; as_of: {today}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def differs(new: Path, old: Path) -> bool:
    """Whether two tables differ in more than their date."""
    return not old.exists() or undated(new) != undated(old)


def undated(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.partition("; as_of: ")[0] for line in lines if '"as_of"' not in line)


if __name__ == "__main__":
    sys.exit(main())
