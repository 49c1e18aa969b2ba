"""Checks every row of the catalogue's tables of images against its source.

    python tools/check_image_sources.py --repository CHECKOUT [--commit COMMIT]
    python tools/check_image_sources.py --package sagemaker_core-VERSION.whl

`CHECKOUT` is a clone of https://github.com/aws/deep-learning-containers, bare or not. Its `docs/src/data/*/*.yml` become
`tests/catalogue/excerpts/dlc_docs.json`, with which `tests/catalogue/test_image_sources.py` compares the rows of the sources
`dlc-docs*`; excerpts of other commits stay. `WHEEL` has the tables from which the SageMaker SDK puts tags together: rows of
`sagemaker-core*` are compared with it. Each row that its source does not contain is printed; its column `confirmed` has to be
empty, and no default is taken from it.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DATA = ROOT / "src/gpuproof/catalogue/data"
EXCERPTS = ROOT / "tests/catalogue/excerpts/dlc_docs.json"
SHORT = 8
"""Digits of a commit, as in `sources.csv`."""

_FOLDER = "docs/src/data"
_FRAMEWORKS = {"pytorch": "torch"}
"""The catalogue's names, where AWS's first word in lower case is another."""
_REPOSITORIES = ("base", "base-ubuntu", "pytorch", "tensorflow")
"""Beginnings of the names of repositories that the table has."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(usage=__doc__, allow_abbrev=False)
    parser.add_argument("--repository", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--package", type=Path)
    options = parser.parse_args(argv)
    problems: list[str] = []
    if options.repository is not None:
        write_excerpts(options.repository, options.commit)
        problems += documented_problems(read_rows("images"), json.loads(EXCERPTS.read_text()))
    if options.package is not None:
        with zipfile.ZipFile(options.package) as package:
            problems += package_problems([*read_rows("images"), *read_rows("huggingface_images")], package)
    print("\n".join(problems) or "every row that is marked as confirmed is in its source")
    return int(bool(problems))


def read_rows(table: str) -> list[dict[str, str]]:
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_excerpts(repository: Path, commit: str) -> None:
    """Store what AWS's documentation says about each image at a commit, next to the excerpts of other commits."""
    full = _git(repository, "rev-parse", commit).strip()[:SHORT]
    known: list[dict[str, Any]] = json.loads(EXCERPTS.read_text())["images"] if EXCERPTS.exists() else []
    others = [image for image in known if image["commit"] != full]
    by_place = {
        (image["path"], image["commit"]): image for image in (*others, *_documented(repository, commit, full))
    }
    images = [by_place[place] for place in sorted(by_place)]
    document = {
        "source": "https://github.com/aws/deep-learning-containers, folder docs/src/data",
        "license": "Apache-2.0, Copyright Amazon.com, Inc. or its affiliates",
        "images": images,
    }
    EXCERPTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _documented(repository: Path, commit: str, short: str) -> Iterator[dict[str, Any]]:
    for path in _git(repository, "ls-tree", "-r", "--name-only", commit, _FOLDER).splitlines():
        name = path.split("/")[3]
        if (
            not path.endswith(".yml")
            or not name.startswith(_REPOSITORIES)
            or "neuron" in name
            or "trcomp" in name
        ):
            continue
        facts = yaml.safe_load(_git(repository, "show", f"{commit}:{path}"))
        if isinstance(facts, dict) and facts.get("tags"):
            kept = (
                "framework",
                "version",
                "accelerator",
                "python",
                "cuda",
                "os",
                "platform",
                "ga",
                "eop",
                "tags",
            )
            yield {"path": path, "commit": short, **{key: facts[key] for key in kept if facts.get(key)}}


def documented_problems(rows: list[dict[str, str]], excerpts: Mapping[str, Any]) -> list[str]:
    """How confirmed rows of AWS's documentation differ from the excerpts."""
    by_tag = {
        (image["path"].split("/")[3], tag): image for image in excerpts["images"] for tag in image["tags"]
    }
    problems: list[str] = []
    for row in rows:
        if not row["source"].startswith("dlc-docs") or not row["confirmed"]:
            continue
        image = by_tag.get((row["repository"], row["tag"]))
        if image is None:
            problems.append(f"{row['repository']}:{row['tag']}: no excerpt has this tag")
            continue
        found, expected = _facts(row), _documented_facts(image)
        problems += [
            f"{row['repository']}:{row['tag']}: {name} is {found[name]!r}, and {image['path']} has {value!r}"
            for name, value in expected.items()
            if found[name] != value
        ]
    return problems


def _facts(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "framework": row["framework"],
        "device": row["device"],
        "python": f"py{row['python'].replace('.', '')}",
        "cuda": f"cu{row['cuda'].replace('.', '')}" if row["cuda"] else "",
        "os": row["os"],
        "platform": row["platform"],
        "released": row["released"],
        "patched_until": row["patched_until"],
    }


def _documented_facts(image: Mapping[str, Any]) -> dict[str, Any]:
    name = image["framework"].split()[0].lower()
    return {
        "framework": _FRAMEWORKS.get(name, name),
        "device": image["accelerator"],
        "python": image["python"],
        "cuda": image.get("cuda", ""),
        "os": image["os"],
        "platform": image["platform"],
        "released": image["ga"],
        "patched_until": image["eop"],
    }


def package_problems(rows: list[dict[str, str]], package: zipfile.ZipFile) -> list[str]:
    """Confirmed rows of the SageMaker SDK whose tag does not follow from the SDK's tables."""
    tables = {
        Path(name).stem: json.loads(package.read(name))
        for name in package.namelist()
        if "image_uri_config/" in name and name.endswith(".json")
    }
    derived = {pair for table in tables.values() for pair in _derived_tags(table)}
    return [
        f"{row['repository']}:{row['tag']}: the package has no such image"
        for row in rows
        if row["source"].startswith("sagemaker-core")
        and row["confirmed"]
        and (row["repository"], row["tag"]) not in derived
    ]


def _derived_tags(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Repositories and tags of one table, in the way of the SDK's `image_uris.retrieve`."""
    for scope in (table, *table.values()):
        if not isinstance(scope, dict) or "versions" not in scope:
            continue
        for version, about in scope["versions"].items():
            bases = {
                key: value
                for key, value in about.items()
                if isinstance(value, dict) and "repository" in value
            }
            if "repository" in about:
                bases = {"": about, **bases}
            for base, facts in bases.items():
                yield from _tags(
                    version,
                    base,
                    facts,
                    facts.get("processors") or about.get("processors") or scope.get("processors"),
                )


def _tags(
    version: str, base: str, facts: Mapping[str, Any], processors: list[str] | None
) -> Iterator[tuple[str, str]]:
    prefix = facts.get("tag_prefix") or version
    if base:
        name = base.removeprefix("pytorch").removeprefix("tensorflow")
        prefix = facts.get("tag_prefix") or f"{name}-transformers{version}"
    container = facts.get("container_version", {})
    for processor in processors or container or ("cpu", "gpu"):
        kind = "neuronx" if processor.startswith(("inf2", "trn")) else processor
        for python in facts.get("py_versions") or ("",):
            words = [prefix, kind, python, container.get(processor, "")]
            yield facts["repository"], "-".join(word for word in words if word)


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
