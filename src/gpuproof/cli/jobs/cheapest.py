"""`gpuproof run --on cheapest`: chooses the backend, and shows what was compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuproof.backends.registry import compared_backends

if TYPE_CHECKING:
    from gpuproof.backends.cheapest.choose import Choice
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.terminal.console import Console


def choose(job: AnyJob, console: Console, *, fresh: bool, as_json: bool) -> Choice:
    """The backend with the lowest price, and its plan.

    Args:
        fresh: start without an earlier run's checkpoints.
        as_json: if there is none, print what was compared as JSON.

    Raises:
        GPUproofError: no backend can run the job.
    """
    from gpuproof.backends.cheapest.choose import NowhereToRun, choose_backend
    from gpuproof.cli.jobs.instance_choice import predict

    try:
        return choose_backend(
            compared_backends(),
            job,
            fresh=fresh,
            notify=console.progress,
            predict=lambda types: predict(job, types, console),
        )
    except NowhereToRun as error:
        if as_json:
            candidates = [one.to_json() for one in error.candidates]
            document = {"version": 1, "run": None, "verdict": None, "explanations": []}
            document |= {"exit_code": int(error.exit_code), "candidates": candidates}
            console.end_progress()
            print(json.dumps(document, indent=2))
        raise
    finally:
        console.end_progress()


def show_choice(choice: Choice, console: Console) -> None:
    """Print which backend was chosen, and the others."""
    console.label("choice", choice.text)


def with_candidates(document: str, choice: Choice | None) -> str:
    """A JSON document, with the backends that were compared if one was chosen."""
    if choice is None:
        return document
    candidates = [one.to_json() for one in choice.candidates]
    return json.dumps(json.loads(document) | {"candidates": candidates}, indent=2)
