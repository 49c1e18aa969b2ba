"""Descendants of a process, in a program of its own: its children are not those of the tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import os, subprocess, sys
from gpuproof.util.process_tree import adopt_orphans, descendants, end_descendants
adopt_orphans()
forks = [sys.executable, "-c", "import os, time; os.fork(); print(flush=True); time.sleep(600)"]
def start(command):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    for _ in range(2):
        child.stdout.readline()
    return child
spared, _ = start(forks), start(forks)
assert len(descendants(os.getpid())) == 4
end_descendants(spared=[spared.pid])
left = descendants(os.getpid())
assert left[0] == spared.pid and len(left) == 2, left
end_descendants()
print("left", descendants(os.getpid()))
"""


def test_a_child_that_is_spared_stays_with_its_own_children() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "left []\n", done.stderr
