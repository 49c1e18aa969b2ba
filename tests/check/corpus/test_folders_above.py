"""A project has the same findings when it is checked alone and when a folder above it and other projects is checked."""

import shutil
from pathlib import Path

from gpuproof.linter.engine import CheckReport, check_paths

PROJECTS = Path(__file__).parent / "projects"


def test_labelled_projects_have_the_same_findings_in_a_folder_with_others(tmp_path: Path) -> None:
    top = tmp_path / "level" / "work"
    copies: list[Path] = []
    for style in sorted(path for path in PROJECTS.iterdir() if path.is_dir()):
        for project in sorted(path for path in style.iterdir() if path.is_dir())[:2]:
            copies.append(top / style.name / project.name)
            shutil.copytree(project, copies[-1])
    alone = {finding for copy in copies for finding in _findings(check_paths([str(copy)]))}
    assert alone
    assert _findings(check_paths([str(top)])) == alone
    assert _findings(check_paths([str(tmp_path)])) == alone


def _findings(report: CheckReport) -> set[tuple[str, int, str, str, str]]:
    assert report.internal_errors == ()
    return {
        (
            str(Path(hit.span.unit.path).absolute()),
            hit.span.line,
            hit.code,
            str(hit.finding.severity),
            hit.finding.message,
        )
        for hit in report.hits
    }
