"""Whether somebody has a shell on this machine through AWS Systems Manager."""

from __future__ import annotations

from pathlib import Path

WORKER = "ssm-session-wor"
"""The first 15 characters of `ssm-session-worker`, which the kernel keeps of a program's name. Systems Manager's agent starts one
for each session: https://github.com/aws/amazon-ssm-agent (`agent/appconfig/constants_unix.go`, `SSMSessionWorkerName`)."""


def shell_is_open(proc: Path = Path("/proc")) -> bool:
    """Whether a session of Systems Manager runs a program, such as a shell; one that only forwards a port runs none."""
    parents: set[int] = set()
    workers: set[int] = set()
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has just ended
        # The name may contain spaces and parentheses: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name == WORKER:
            workers.add(int(folder.name))
        parents.add(int(rest.split()[1]))
    return bool(workers & parents)
