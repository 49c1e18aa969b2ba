"""A clock that is wrong for one process tree: a library for LD_PRELOAD adds the seconds in a file to the time of day."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>

static long offset(void) {
    long seconds = 0;
    FILE *file = fopen(OFFSET_FILE, "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset();
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *result) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (result) *result = real.tv_sec;
    return real.tv_sec;
}
"""


def build_clock_shim(folder: Path, offset_file: str) -> Path:
    """Build the library; the test is skipped without a C compiler.

    Args:
        offset_file: the file with the seconds, as the processes see it.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    command = [
        compiler,
        "-shared",
        "-fPIC",
        f'-DOFFSET_FILE="{offset_file}"',
        "-o",
        str(library),
        str(source),
    ]
    subprocess.run(command, check=True)
    return library
