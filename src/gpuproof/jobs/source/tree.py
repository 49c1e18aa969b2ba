"""The source tree: which files are sent with a job, and copying them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gpuproof.errors import UsageError
from gpuproof.jobs.source.ignore_rules import IGNORE_FILE, Exclusion, IgnoreRules, IncludePatterns
from gpuproof.util.humanize import format_bytes, pluralize

LIMIT_FILES = 10_000
LIMIT_BYTES = 500 * 2**20

LARGE_FILES = 1_000
LARGE_BYTES = 50 * 2**20
"""From these sizes on, a tree is probably larger than intended, and there is a note."""

_MAX_COMPARED = 2_000
_MOST_NAMED = 5
_FICLONE = 0x40049409  # ioctl_ficlone(2)


@dataclass(frozen=True)
class SourceFile:
    """One file that is sent.

    Args:
        relative: its name relative to the tree's root, with slashes.
        size: in bytes.
        mode: its permission bits.
        target: for a symbolic link to something inside the tree, what it points to; it stays a link.
    """

    relative: str
    size: int
    mode: int
    target: str | None = None


@dataclass(frozen=True)
class SourceTree:
    """The files that are sent with a job.

    Args:
        root: the source folder, absolute.
        files: sorted by folder and name.
        total_bytes: the sum of their sizes.
        empty_folders: folders without files, relative to the root.
        git_ignored: what is left out because `.gitignore` lists it, relative to the root; folders end with a slash.
        notes: remarks for the user about what was selected.
    """

    root: Path
    files: tuple[SourceFile, ...]
    total_bytes: int
    empty_folders: tuple[str, ...] = ()
    git_ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Number and size of the files, where they are, and what `.gitignore` leaves out."""
        text = f"{pluralize(len(self.files), 'file')}, {format_bytes(self.total_bytes)} from {self.root}"
        if not self.git_ignored:
            return text
        shown = ", ".join(self.git_ignored[:_MOST_NAMED])
        more = (
            "" if len(self.git_ignored) <= _MOST_NAMED else f" and {len(self.git_ignored) - _MOST_NAMED} more"
        )
        return f"{text}\nwithout what .gitignore lists: {shown}{more} (--include sends it)"

    def listing(self) -> list[tuple[str, int]]:
        """Each file's name and size in bytes."""
        return [(file.relative, file.size) for file in self.files]


def collect(
    source_dir: Path,
    entry_point: str,
    *,
    exclude: Collection[Path] = (),
    include: Sequence[str] = (),
    respect_gitignore: bool = True,
    limit_files: int = LIMIT_FILES,
    limit_bytes: int = LIMIT_BYTES,
) -> SourceTree:
    """Lists the files that are sent with a job: its source folder without generated and ignored files.

    A symbolic link to something inside the folder stays a link; a link to somewhere else is followed. If the source
    folder is `/`, the home folder or the folder for temporary files, only the entry point is sent, or nothing without one.

    Args:
        source_dir: the source folder.
        entry_point: the script, relative to it; never excluded. Empty for none.
        exclude: files and folders that reach the job by other means, such as its inputs.
        include: patterns of files that are sent although they are ignored; see `IncludePatterns`.
        respect_gitignore: whether files that `.gitignore` lists are left out.
        limit_files: maximum number of files.
        limit_bytes: maximum size of all files together, in bytes.

    Raises:
        UsageError: the entry point does not exist, a file cannot be read, or a limit is exceeded.
    """
    root = source_dir.absolute()
    script = root / entry_point
    if entry_point and not script.is_file():
        raise _no_entry_point(root, entry_point)
    if _is_shared_folder(root) and not entry_point:
        note = (
            f"{root} is not a folder of one job only, so nothing of it is sent: set source_dir to change that"
        )
        return SourceTree(root, (), 0, notes=(note,))
    if _is_shared_folder(root):
        alone = _source_file(script, entry_point)
        note = f"{root} is not a folder of one job only, so only {entry_point} is sent: set source_dir to change that"
        return SourceTree(root, (alone,), alone.size, notes=(note,))
    excluded = {os.path.normpath(path.absolute()) for path in exclude} | {
        os.path.realpath(path) for path in exclude
    }
    patterns = IncludePatterns(include, root)
    walk = _TreeWalk(root, frozenset(excluded), patterns)
    chosen: dict[str, SourceFile] = {}
    total = 0
    for file in walk.files(IgnoreRules.of(root, respect_gitignore=respect_gitignore)):
        chosen[file.relative] = file
        total += file.size
        if len(chosen) > limit_files or total > limit_bytes:
            raise _too_much(root, chosen.values(), limit_files, limit_bytes)
    name = os.path.normpath(entry_point)
    if entry_point and name not in chosen:
        chosen[name] = _source_file(script, name)
        total += chosen[name].size
    notes = _size_notes(chosen.values(), total)
    notes += [f"include: '{pattern}' matches no file in {root}" for pattern in patterns.unused]
    return SourceTree(
        root,
        tuple(chosen.values()),
        total,
        tuple(walk.empty_folders),
        tuple(ignored for ignored in walk.git_ignored if ignored != name),
        tuple(notes),
    )


def copy_to(tree: SourceTree, destination: Path) -> None:
    """Copies a tree into a folder, sharing blocks if the file system can; permissions are kept.

    Args:
        destination: created if it does not exist.

    Raises:
        OSError: a file could not be read or written; files copied before are not removed.
    """
    destination.mkdir(parents=True, exist_ok=True)
    made = {""}
    for file in tree.files:
        folder = file.relative.rpartition("/")[0]
        if folder not in made:
            (destination / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        target = destination / file.relative
        if file.target is not None:
            target.symlink_to(file.target)
            continue
        _copy_content(tree.root / file.relative, target)
        # The run may replace and delete its copies, whatever the permissions of the originals.
        target.chmod(file.mode | stat.S_IRUSR | stat.S_IWUSR)
    for folder in tree.empty_folders:
        (destination / folder).mkdir(parents=True, exist_ok=True)


class _TreeWalk:
    """One pass over a source folder.

    Args:
        root: absolute.
        exclude: excluded paths, as given and with links resolved.
        include: patterns of what is sent although a rule excludes it.
    """

    def __init__(self, root: Path, exclude: frozenset[str], include: IncludePatterns) -> None:
        self.empty_folders: list[str] = []
        self.git_ignored: list[str] = []
        """What only `.gitignore` excluded; folders end with a slash."""
        self._root = root
        self._real_root = os.path.realpath(root)
        self._exclude = exclude - {str(root), self._real_root}
        self._include = include

    def files(self, rules: IgnoreRules) -> Iterator[SourceFile]:
        """Yields the files, folder by folder, sorted by name."""
        return self._folder("", frozenset(), rules)

    def _folder(
        self, prefix: str, above: frozenset[tuple[int, int]], rules: IgnoreRules | None
    ) -> Iterator[SourceFile]:
        """The files of one folder.

        Args:
            prefix: its path relative to the root.
            above: the folders that contain it.
            rules: what is left out; None in an excluded folder, of which only included files are sent.
        """
        path = self._root / prefix
        try:
            status = path.stat()
            with os.scandir(path) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            raise _unreadable(path, error) from error
        here = (status.st_dev, status.st_ino)
        if here in above:
            return  # a link to a parent folder
        if prefix and not entries:
            self.empty_folders.append(prefix)
        if rules is not None:
            rules = rules.below(prefix, [entry.name for entry in entries])
        for entry in entries:
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            yield from self._entry(entry, name, above | {here}, rules)

    def _entry(
        self, entry: os.DirEntry[str], name: str, above: frozenset[tuple[int, int]], rules: IgnoreRules | None
    ) -> Iterator[SourceFile]:
        is_link = entry.is_symlink()
        if entry.path in self._exclude or (is_link and os.path.realpath(entry.path) in self._exclude):
            return
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError:
            return  # a cycle of links
        if self._include.match(name):
            below = IgnoreRules(self._root)
        elif rules is None or self._is_excluded(name, rules, is_folder=is_folder):
            if not is_folder or not self._include.may_match_below(name):
                return
            below = None
        else:
            below = rules
        if is_link and (target := self._inside(Path(entry.path))) is not None:
            yield SourceFile(name, 0, 0o777, target)
        elif is_link and is_folder and _is_below(self._real_root, os.path.realpath(entry.path)):
            return  # it leads to a folder that contains the source folder, and with it to everything beside it
        elif is_folder:
            yield from self._folder(name, above, below)
        elif is_file:
            yield _source_file(Path(entry.path), name)

    def _is_excluded(self, name: str, rules: IgnoreRules, *, is_folder: bool) -> bool:
        reason = rules.exclusion(name, is_folder=is_folder)
        if reason is Exclusion.GITIGNORE and not self._include.may_match_below(name):
            self.git_ignored.append(f"{name}/" if is_folder else name)
        return reason is not None

    def _inside(self, link: Path) -> str | None:
        """The target of a link in the tree, relative to the link; None if it is outside or missing."""
        target = os.path.normpath(link.parent / link.readlink())
        # Behind a link that leaves the tree, a relative link would be broken where the job runs.
        if not _is_below(os.path.realpath(link.parent), self._real_root) or not link.exists():
            return None
        return os.path.relpath(target, link.parent) if _is_below(target, str(self._root)) else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _source_file(path: Path, name: str) -> SourceFile:
    try:
        status = path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unreadable(path, error) from error
    return SourceFile(name, status.st_size, stat.S_IMODE(status.st_mode))


def _is_shared_folder(folder: Path) -> bool:
    shared = [os.sep, tempfile.gettempdir(), os.path.expanduser("~")]  # noqa: PTH111 - never fails
    return os.path.realpath(folder) in {os.path.realpath(path) for path in shared}


def _copy_content(source: Path, target: Path) -> None:
    if sys.platform == "linux" and _clone(source, target):
        return
    shutil.copyfile(source, target)


def _clone(source: Path, target: Path) -> bool:
    """Makes the target share the source's blocks (Btrfs, XFS); returns whether that worked."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            fcntl.ioctl(written, _FICLONE, read.fileno())
        except OSError:
            return False
    return True


def _no_entry_point(root: Path, entry_point: str) -> UsageError:
    if not root.is_dir():
        return UsageError(f"The source folder {root} does not exist.", "Correct source_dir.")
    from gpuproof.jobs.suggestions import did_you_mean  # only for an error

    try:
        seen = [
            file.relative
            for file in islice(
                _TreeWalk(root, frozenset(), IncludePatterns((), root)).files(IgnoreRules.of(root)),
                _MAX_COMPARED,
            )
        ]
    except UsageError:
        seen = []
    elsewhere = [name for name in seen if Path(name).name == Path(entry_point).name]
    hint = f"; did you mean '{elsewhere[0]}'?" if elsewhere else did_you_mean(entry_point, seen)
    what = "a folder, not a script" if (root / entry_point).is_dir() else "not there"
    return UsageError(f"The entry point {entry_point} is {what} in {root}{hint}")


def _unreadable(path: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"{str(path)!r} cannot be sent with the job: {reason}.",
        f"Make it readable, or list it in {IGNORE_FILE} if the job does not need it.",
    )


def _size_notes(files: Collection[SourceFile], total: int) -> list[str]:
    """A note about a large tree."""
    many = len(files) > LARGE_FILES
    if not many and total <= LARGE_BYTES:
        return []
    largest = _largest(files, by_count=many).text
    size = f"{len(files):,} files, {format_bytes(total)}"
    what_to_do = f"pass data as an input, and list what it does not need in {IGNORE_FILE}"
    return [f"{size} are sent with the job: {what_to_do}; the largest: {largest}"]


def _too_much(root: Path, files: Collection[SourceFile], limit_files: int, limit_bytes: int) -> UsageError:
    too_many = len(files) > limit_files
    largest = _largest(files, by_count=too_many)
    limit = f"{limit_files:,} files" if too_many else format_bytes(limit_bytes)
    return UsageError(
        f"{root} holds more than {limit}, all of which would be sent with the job. "
        f"The largest found: {largest.text}.",
        f"Set source_dir to a smaller folder, or write a line such as {(largest.names or ['data/'])[0]} into "
        f"{root / IGNORE_FILE}. Pass data as an input: --input training=FOLDER.",
    )


class _Largest(NamedTuple):
    names: list[str]
    text: str


def _largest(files: Collection[SourceFile], *, by_count: bool) -> _Largest:
    """The largest entries of the source folder, by number of files or by size."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in files:
        top, slash, _ = file.relative.partition("/")
        counts[top + slash] += 1
        sizes[top + slash] += file.size
    names = [
        name
        for name, _ in (counts if by_count else sizes).most_common()
        if name.endswith("/") or not by_count
    ]
    shown = [f"{name!r} ({counts[name]:,} files, {format_bytes(sizes[name])})" for name in names[:3]]
    return _Largest(names, ", ".join(shown) or "files in the folder itself")
