"""Pages of the codes of `gpuproof doctor`: one for each, from `doctor/data/codes.csv` and the machines of its tests."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator

from site_source.pages import ROOT, Page, filterable, plain, table

SCENARIOS = ROOT / "tests" / "doctor" / "scenarios"


def doctor_pages() -> Iterator[Page]:
    """The list of codes, and a page for each."""
    from gpuproof.doctor.codes import doctor_codes

    codes = doctor_codes()
    lines = [
        "# Codes of `gpuproof doctor`\n",
        f"{len(codes)} findings about a machine, from the PCI bus to the AWS account. [doctor](doctor.md) explains how it looks for them; on your",
        "machine, it prints the evidence and the remedy.\n",
        filterable(
            table(
                ("Code", "Layer", "Problem", "Meaning"),
                [
                    (
                        f"[{code.code}](doctor/{code.code}.md)",
                        code.layer,
                        plain(code.problem),
                        plain(code.meaning),
                    )
                    for code in codes.values()
                ],
            ),
            "Filter codes",
        ),
    ]
    yield Page("doctor/codes.md", "\n".join(lines), hide=("toc",))
    machines = _machines()
    for code in codes.values():
        text = [
            f"# {code.code}: {plain(code.problem)}\n",
            plain(code.meaning) + "\n",
            f"*layer {code.layer}* · [All codes](doctor/codes.md)\n",
        ]
        if found := machines.get(code.code):
            text += [
                "## Where it was found\n",
                "Machines of the tests on which `gpuproof doctor` reports it:\n",
            ]
            text += [f"- {plain(description)}" for description in found]
            text.append("")
        text.append(
            "`gpuproof doctor` prints the evidence on your machine, and the command that repairs it.\n"
        )
        yield Page(f"doctor/{code.code}.md", "\n".join(text))


def _machines() -> dict[str, list[str]]:
    """The descriptions of the machines of the tests by the codes of what is found on them."""
    machines: defaultdict[str, list[str]] = defaultdict(list)
    for folder in sorted(path for path in SCENARIOS.iterdir() if path.is_dir()):
        expected = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
        description = tomllib.loads((folder / "machine.toml").read_text(encoding="utf-8")).get(
            "description", ""
        )
        for code in dict.fromkeys(finding["code"] for finding in expected.get("finding", [])):
            if description:
                machines[code].append(description)
    return machines
