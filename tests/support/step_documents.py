"""What the processes of a training script record of their steps, for tests that need no training.

document(input=0.4, forward=0.5)  # shares of the time of a step
"""

from typing import Any

PHASES = ("input", "copy", "forward", "backward", "optimizer", "communication", "evaluation", "checkpoint")


def document(
    rank: int | None = None,
    *,
    steps: int = 200,
    step_s: float = 0.25,
    clock: float = 1000.0,
    windows: int = 10,
    own: float = 1.0,
    locations: dict[str, Any] | None = None,
    loop: str = "pytorch",
    **shares: float,
) -> dict[str, Any]:
    """A document of one process.

    Args:
        clock: its host's time at the first step, in seconds since the epoch.
        own: share of a step in which it does not wait for others.
        shares: of each phase in the time.
    """
    seconds = steps * step_s
    return {
        "version": 1,
        "rank": rank,
        "local_rank": rank,
        "pid": 100 + (rank or 0),
        "loop": loop,
        "clock": "cuda",
        "steps": steps,
        "seconds": seconds,
        "phases": {name: share * seconds for name, share in shares.items()},
        "epochs": [
            {
                "epoch": number,
                "steps": steps // 2,
                "seconds": seconds / 2,
                "phases": {name: share * seconds / 2 for name, share in shares.items()},
            }
            for number in range(2)
        ],
        "locations": locations or {},
        "median_step_s": step_s,
        "own_step_s": own * step_s,
        "windows": [
            [
                clock + (number + 1) * seconds / windows,
                steps // windows,
                seconds / windows,
                own * seconds / windows,
                shares.get("input", 0.0) * seconds / windows,
            ]
            for number in range(windows)
        ],
    }


def location(
    what: str, line: int = 38, *, count: int = 200, seconds: float = 20.0, **settings: Any
) -> dict[str, Any]:
    """A line of `train.py`."""
    return {
        "path": "train.py",
        "line": line,
        "what": what,
        "count": count,
        "seconds": seconds,
        "settings": settings,
    }
