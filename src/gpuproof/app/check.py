"""Checks files for idle GPUs and broken jobs: `gpuproof check`, and `gpuproof.check` in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.app.session import print_note
from gpuproof.backends.display import Printed
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.findings import Finding
    from gpuproof.linter.config import CheckSettings
    from gpuproof.linter.engine import CheckOptions, CheckReport
    from gpuproof.linter.jobs.memory_plan import TraceOptions
    from gpuproof.terminal.table import Block

_MAX_ROUNDS = 5
"""A fix may reveal another finding; fixes that still change the files after this many rounds undo each other."""
_WIDTH = 100
_SUPPORTED = (
    "check reads Python, notebooks, gpuproof.yaml, CloudFormation, Terraform, JSON requests, requirements files, and what "
    "shell scripts, Makefiles and Dockerfiles start"
)


@dataclass(frozen=True)
class CheckRequest:
    """What to check, and how.

    Args:
        paths: files and folders, as the user writes them.
        select: codes, prefixes or names of the rules to run; the default ones if empty.
        extend_select: rules to run in addition.
        ignore: rules not to run.
        instance_type: check as if every job used this type; `g5.xlarge` and `ml.g5.xlarge` are the same.
        region: region of the jobs, for prices and availability.
        sagemaker_sdk: major version of the SageMaker SDK that scripts use; None to find out.
        plan: also run the script of each training job for a few steps, without a GPU.
        inputs: with `plan`: by channel, a folder with a few samples.
        python: with `plan`: the interpreter that has the scripts' frameworks; the current environment's if None.
        markdown: also check Python code blocks in Markdown files.
        baseline: a file with known findings, which are not reported; the settings' one if None.
    """

    paths: tuple[str, ...] = (".",)
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    instance_type: str | None = None
    region: str | None = None
    sagemaker_sdk: int | None = None
    plan: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str | None = None
    markdown: bool = False
    baseline: str | None = None


@dataclass(frozen=True, repr=False)
class CheckResult(Printed):
    """What `gpuproof.check` found; `print(result)` shows it as the command does.

    Args:
        report: the findings with their fixes and source lines.
        fixed: the number of findings that were fixed.
    """

    report: CheckReport
    fixed: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, sorted by location: `code`, `severity`, `message`, `remedy`, `location`."""
        return tuple(hit.finding for hit in self.report.hits)

    @property
    def failed(self) -> bool:
        """Whether there are errors or warnings; notes do not count."""
        return self.report.failed

    @property
    def title(self) -> str:
        """The number of files and findings."""
        from gpuproof.linter.formats.text import summary

        return summary(self.report)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof check --format json`."""
        from gpuproof.linter.formats.json import to_json

        return to_json(self.report)

    def __str__(self) -> str:
        from gpuproof.linter.formats.text import render

        return "\n".join(render(self.report, width=_WIDTH))

    def blocks(self) -> Iterable[Block]:
        """The findings as a table, internal errors, and the counts."""
        from gpuproof.linter.formats.table import blocks

        return blocks(self.report)


def check(
    *paths: str | PathLike[str],
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    fix: bool = False,
    unsafe_fixes: bool = False,
    instance_type: str | None = None,
    region: str | None = None,
    sagemaker_sdk: int | None = None,
    plan: bool = False,
    inputs: Mapping[str, str | PathLike[str]] | None = None,
    python: str | None = None,
    markdown: bool = False,
    baseline: str | PathLike[str] | None = None,
) -> CheckResult:
    """Find idle GPUs and broken jobs before you pay for them, as `gpuproof check` does.

    Args:
        *paths: files and folders; the working directory if there are none.
        select: codes, prefixes or names of the rules to run; the default ones if empty.
        extend_select: rules to run in addition.
        ignore: rules not to run.
        fix: apply fixes that cannot change the results of a program.
        unsafe_fixes: with `fix`: also those that may change results.
        instance_type: check as if every job used this type.
        region: region of the jobs, for prices and availability.
        sagemaker_sdk: major version of the SageMaker SDK that scripts use.
        plan: also run the script of each training job for a few steps, without a GPU, to see whether it fits into
            the GPU's memory.
        inputs: with `plan`: by channel, a folder with a few samples.
        python: with `plan`: the interpreter that has the scripts' frameworks.
        markdown: also check Python code blocks in Markdown files.
        baseline: a file that `gpuproof check --write-baseline` wrote; its findings are left out.

    Raises:
        GPUproofError: a path does not exist, or a rule, type or region is unknown.
    """
    request = CheckRequest(
        tuple(str(path) for path in paths) or (".",),
        tuple(select),
        tuple(extend_select),
        tuple(ignore),
        instance_type,
        region,
        sagemaker_sdk,
        plan,
        {channel: str(folder) for channel, folder in (inputs or {}).items()},
        python,
        markdown,
        str(baseline) if baseline is not None else None,
    )
    if unsafe_fixes and not fix:
        raise UsageError("unsafe_fixes=True needs fix=True.")
    if not plan and (request.inputs or python is not None):
        raise UsageError("inputs and python need plan=True, which runs the scripts.")
    report, fixed = check_files(request), 0
    if fix:
        report, fixed = fix_files(report, request, unsafe=unsafe_fixes, notify=print_note)
    for note in notes(report):
        print_note(note)
    return CheckResult(report, fixed)


def check_files(request: CheckRequest, *, with_known: bool = False) -> CheckReport:
    """The findings. An exception outside a rule is reported as an internal error too.

    Args:
        with_known: whether to include the findings of the baseline.

    Raises:
        GPUproofError: a path does not exist, or a rule, type or region is unknown.
    """
    from gpuproof.linter.engine import CheckReport, check_paths

    options = _options(request)
    baseline = None if with_known else _baseline(request, options.settings)
    try:
        report = check_paths(request.paths, options)
        return report if baseline is None else _without_known(report, baseline)
    except GPUproofError:
        raise
    except Exception as error:  # noqa: BLE001
        from gpuproof.linter.internal_errors import ErrorLog

        log = ErrorLog()
        log.add(error, "", task="checking")
        return CheckReport((), (), (), tuple(log.errors))


def write_baseline(request: CheckRequest) -> tuple[CheckReport, Path]:
    """Write all findings to the baseline of the request or of the settings, by default `gpuproof-baseline.json`.

    Returns:
        The report with all findings, and the file.

    Raises:
        GPUproofError: a path does not exist, a rule, type or region is unknown, or the file cannot be written.
    """
    from gpuproof.linter import baseline

    path = _baseline(request, _options(request).settings) or Path(baseline.FILE_NAME)
    report = check_files(request, with_known=True)
    baseline.write(path, report.hits)
    return report, path


def fix_files(
    report: CheckReport, request: CheckRequest, *, unsafe: bool, notify: Callable[[str], None]
) -> tuple[CheckReport, int]:
    """Apply fixes until none is left.

    Args:
        unsafe: whether to apply fixes that may change results.
        notify: called with what could not be written, and why.

    Returns:
        The report of what remains, and the number of findings that were fixed.
    """
    from gpuproof.linter.fixing.apply import plan_fixes, write_change

    fixed = 0
    for _ in range(_MAX_ROUNDS):
        written = 0
        for change in plan_fixes(report.hits, unsafe=unsafe):
            try:
                write_change(change)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                notify(f"{change.path} cannot be written: {reason}. The file is unchanged.")
            else:
                written += len(change.fixed)
        if not written:
            break
        fixed += written
        report = check_files(request)
    return report, fixed


def notes(report: CheckReport) -> list[str]:
    """What was not checked, or not as the user wanted."""
    return [
        *(f"{path} is not checked: {_SUPPORTED}." for path in report.unsupported),
        *(
            f"{problem.message}. Its files were checked with the default settings."
            for problem in report.problems
        ),
        *(
            [
                f"{pluralize(report.gone, 'finding')} of the baseline no longer exist{'s' * (report.gone == 1)}: write it again with --write-baseline."
            ]
            if report.gone
            else []
        ),
    ]


def _baseline(request: CheckRequest, settings: CheckSettings) -> Path | None:
    return Path(request.baseline) if request.baseline is not None else settings.baseline


def _without_known(report: CheckReport, path: Path) -> CheckReport:
    from gpuproof.linter.baseline import compare

    compared = compare(path, report.hits, report.paths)
    return replace(report, hits=compared.new, known=compared.known, gone=compared.gone)


def _options(request: CheckRequest) -> CheckOptions:
    from gpuproof.linter.config import read_settings
    from gpuproof.linter.engine import CheckOptions
    from gpuproof.linter.project import Target
    from gpuproof.linter.registry import Selection

    if request.region is not None:
        from gpuproof.catalogue import Catalogue
        from gpuproof.catalogue.names import reject_unknown_region

        reject_unknown_region(request.region, Catalogue.load())
    return CheckOptions(
        Selection(request.select, request.extend_select, request.ignore),
        Target(
            request.sagemaker_sdk,
            request.region,
            _sagemaker_type(request.instance_type),
            trace=_trace_options(request),
        ),
        read_settings(Path(request.paths[0])),
        markdown=request.markdown,
    )


def _sagemaker_type(name: str | None) -> str | None:
    """The name of a type for SageMaker jobs, which need the prefix `ml.`; names of EC2 are accepted too."""
    if name is None:
        return None
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.names import reject_unknown_type

    catalogue = Catalogue.load()
    found = name if catalogue.instance(name) is not None else f"ml.{name}"
    if catalogue.instance(found) is None:
        reject_unknown_type(name, catalogue)
    return found if found.startswith("ml.") or catalogue.instance(f"ml.{found}") is None else f"ml.{found}"


def _trace_options(request: CheckRequest) -> TraceOptions | None:
    if not request.plan:
        return None
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.linter.jobs.memory_plan import TraceOptions

    return TraceOptions(find_interpreter(request.python), tuple(sorted(request.inputs.items())))
