"""Every environment variable and folder that client code reads or writes.

| variable | meaning |
|---|---|
| `GPUPROOF_STATE_DIR` | folder of runs (default `$XDG_STATE_HOME/gpuproof`, `~/.local/state/gpuproof`) |
| `GPUPROOF_CACHE_DIR` | folder of data that can be created again (default `$XDG_CACHE_HOME/gpuproof`, `~/.cache/gpuproof`) |
| `GPUPROOF_ROLE_ARN` | execution role of SageMaker jobs, unless a flag or the job names one |
| `GPUPROOF_INSTANCE_PROFILE` | instance profile of runs on EC2, unless a flag or the job names one |
| `GPUPROOF_SCHEDULE_ROLE_ARN` | role of the schedules of `gpuproof deploy --ttl`, unless a flag names one |
| `GPUPROOF_FIRST_REPORT_SECONDS` | how long a followed run on EC2 waits for the first report of its instance before it ends it (default 900) |
| `GPUPROOF_BUCKET` | bucket for code and results of SageMaker jobs, unless a flag or the job names one |
| `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL*` | as in every AWS SDK |
| `AWS_DEFAULT_REGION` | region if `AWS_REGION` is not set, as in boto3 |
| `AWS_ACCESS_KEY_ID`, `AWS_PROFILE`, `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_SAGEMAKER`, `AWS_WEB_IDENTITY_TOKEN_FILE`, `AWS_CONTAINER_CREDENTIALS_FULL_URI`, `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` | if one is set, runs on SageMaker are searched too; boto3 reads the values |
| `AWS_CONFIG_FILE`, `AWS_SHARED_CREDENTIALS_FILE` | likewise, if the file exists (default `~/.aws/config`, `~/.aws/credentials`) |
| `NO_COLOR` | no colours (https://no-color.org) |
| `SOURCE_DATE_EPOCH` | the date that prices are compared with, for reproducible output (default: today) |
| `FORCE_COLOR` | colours even if the output is no terminal (https://force-color.org) |
| `CI`, `TERM=dumb` | no progress line and no colours: logs and results only |
"""

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.errors import GPUproofError, UsageError

if TYPE_CHECKING:
    from datetime import date

_AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_SAGEMAKER",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
_AWS_FILES = {"AWS_CONFIG_FILE": ".aws/config", "AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials"}


FIRST_REPORT_SECONDS = 900.0
"""Seconds from the launch of an EC2 instance until its host has reported something, or its watchdog has shut it down."""

_notices = [True]


def show_notices(shown: bool) -> None:
    """Show remarks on what is being waited for, or hide them: a program reads the output."""
    _notices[:] = [shown]


def shows_notices() -> bool:
    """Whether remarks on what is being waited for are shown."""
    return _notices[0]


def state_dir() -> Path:
    """Returns the folder of runs, and creates it if it does not exist.

    If the home folder cannot be written (a read-only mount, a container without one), the folder is in the temporary
    directory, and GPUproof prints that once.

    Raises:
        GPUproofError: `GPUPROOF_STATE_DIR` is set and cannot be written.
    """
    return _made(
        _meant("GPUPROOF_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
        "GPUPROOF_STATE_DIR",
        ".local/state",
        "Runs are kept",
    )


def cache_dir() -> Path:
    """Returns the folder of data that can be created again, and creates it; falls back as `state_dir` does."""
    return _made(
        _meant("GPUPROOF_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
        "GPUPROOF_CACHE_DIR",
        ".cache",
        "The cache is kept",
    )


def cache_path() -> Path | None:
    """Returns the path of the cache, existing or not; `None` without a home folder. Never creates it, never fails."""
    return _meant("GPUPROOF_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def own_folders() -> list[Path]:
    """The folders of runs and of the cache, existing or not; never part of a job, even below its source folder."""
    state = _meant("GPUPROOF_STATE_DIR", "XDG_STATE_HOME", ".local/state")
    return [folder for folder in (state, cache_path()) if folder is not None]


def role_arn() -> str | None:
    """Default execution role of SageMaker jobs; None if not set."""
    return os.environ.get("GPUPROOF_ROLE_ARN") or None


def instance_profile_name() -> str | None:
    """Default instance profile of runs on EC2; None if not set."""
    return os.environ.get("GPUPROOF_INSTANCE_PROFILE") or None


def schedule_role_arn() -> str | None:
    """Default role of the schedules that delete endpoints; None if not set."""
    return os.environ.get("GPUPROOF_SCHEDULE_ROLE_ARN") or None


def bucket_name() -> str | None:
    """Default bucket of SageMaker jobs; None if not set."""
    return os.environ.get("GPUPROOF_BUCKET") or None


def first_report_seconds() -> float:
    """How long a run on EC2 that is followed waits for the first report of its instance, in seconds.

    Raises:
        UsageError: `GPUPROOF_FIRST_REPORT_SECONDS` is not a positive number.
    """
    text = os.environ.get("GPUPROOF_FIRST_REPORT_SECONDS") or str(FIRST_REPORT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(
            f"GPUPROOF_FIRST_REPORT_SECONDS={text} is not a number of seconds.",
            remedy=f"export GPUPROOF_FIRST_REPORT_SECONDS={FIRST_REPORT_SECONDS:.0f}",
        )
    return seconds


def aws_region() -> str | None:
    """Region in environment variables, without reading AWS configuration files; None if not set."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None


def today() -> "date":
    """Today's date (UTC), or the day of SOURCE_DATE_EPOCH, which makes output reproducible.

    Source: https://reproducible-builds.org/specs/source-date-epoch/
    """
    import time  # imported late, as most commands print no prices
    from datetime import UTC, datetime

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch) if epoch.isdecimal() else time.time(), UTC).date()


def aws_is_set_up(environment: Mapping[str, str] | None = None, home: Path | None = None) -> bool:
    """Whether AWS credentials seem to be configured: checks variables and the existence of two files.

    Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
    """
    known = os.environ if environment is None else environment
    if any(known.get(name) for name in _AWS_VARIABLES):
        return True
    try:
        at_home = home or Path.home()
    except RuntimeError:
        return any(known.get(name) for name in _AWS_FILES)
    return any(
        Path(known.get(name) or at_home / file).expanduser().is_file() for name, file in _AWS_FILES.items()
    )


def on_ec2() -> bool:
    """Whether this machine is an EC2 instance, by its firmware, or the user has set a metadata endpoint.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
    """
    if os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return True
    signs = {"/sys/class/dmi/id/sys_vendor": "amazon ec2", "/sys/class/dmi/id/bios_version": "amazon"}
    found = {path: _read(path) for path in (*signs, "/sys/hypervisor/uuid")}
    return found.pop("/sys/hypervisor/uuid").startswith("ec2") or any(
        sign in found[path] for path, sign in signs.items()
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").lower()
    except OSError:
        return ""


def boto3_session(profile: str | None = None) -> Any:
    """Creates a session from the environment: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL and so on.

    Args:
        profile: takes precedence over AWS_PROFILE.
    """
    import boto3  # 0.2 s: only for AWS calls

    # boto3 itself reads only AWS_DEFAULT_REGION; all other SDKs read AWS_REGION.
    return boto3.Session(profile_name=profile, region_name=os.environ.get("AWS_REGION") or None)


def colour(stream: object = None) -> bool:
    """Whether to use colours on the stream (default: standard output)."""
    # Set and not empty: https://no-color.org, https://force-color.org; NO_COLOR takes precedence, as in Python.
    if os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("FORCE_COLOR", "0") not in ("", "0") or interactive(stream)


def interactive(stream: object = None) -> bool:
    """Whether the stream (default: standard output) is a terminal that can redraw a line."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(stream or sys.stdout, "isatty", None)
    return bool(isatty and isatty())


@lru_cache
def _made(folder: Path | None, own: str, below_home: str, what: str) -> Path:
    problem = "there is no home folder" if folder is None else _cannot_write(folder)
    if folder is not None and problem is None:
        return folder
    if value := os.environ.get(own):
        raise GPUproofError(
            f"{own}={value} cannot be written: {problem}.",
            remedy=f"Set {own} to a folder that you can write to.",
        )
    shared = Path(tempfile.gettempdir()) / f"gpuproof-{os.getuid()}"
    spare = shared / Path(below_home).name
    # Another user may have created a folder or a link of that name before.
    if (spare_problem := _not_ours(shared) or _cannot_write(spare)) is not None:
        raise GPUproofError(
            f"Neither {folder} ({problem}) nor {spare} ({spare_problem}) can be written.",
            remedy=f"Set {own} to a folder that you can write to.",
        )
    print(f"gpuproof: {folder or '~'} cannot be written ({problem}). {what} in {spare}.", file=sys.stderr)
    return spare


def _meant(own: str, xdg: str, below_home: str) -> Path | None:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    return _standard(xdg, below_home)


def _standard(xdg: str, below_home: str) -> Path | None:
    # Relative values are ignored, by the XDG specification: https://specifications.freedesktop.org/basedir-spec/
    base = os.environ.get(xdg, "")
    if Path(base).is_absolute():
        return Path(base) / "gpuproof"
    try:
        return Path.home() / below_home / "gpuproof"
    except RuntimeError:
        return None


def _not_ours(folder: Path) -> str | None:
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        status = folder.lstat()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if stat.S_ISLNK(status.st_mode) or status.st_uid != os.getuid():
        return "it belongs to another user"
    return "other users can write to it" if status.st_mode & 0o022 else None


def _cannot_write(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_uid not in (os.getuid(), 0):
            return "it belongs to another user"
        return None if os.access(folder, os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        return (error.strerror or str(error)).lower()
