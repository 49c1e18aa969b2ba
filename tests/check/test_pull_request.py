"""The action's comment on a pull request, over HTTP, against a server with the part of GitHub's API that it uses."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
STEPS: list[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
BAD = "x = (\n"


class GitHub(ThreadingHTTPServer):
    """Pull request 7 of o/r, with its changed files and comments."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: list[dict[str, str]] = []
        self.comments: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: GitHub  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        page = int(dict(part.split("=") for part in query.split("&"))["page"])
        items = {
            "/repos/o/r/pulls/7/files": self.server.files,
            "/repos/o/r/issues/7/comments": self.server.comments,
        }[path]
        self._answer(items[(page - 1) * 100 : page * 100])

    def do_POST(self) -> None:
        assert self.path == "/repos/o/r/issues/7/comments"
        self.server.comments.append({"id": 1000 + len(self.server.comments), **self._body()})
        self._answer(self.server.comments[-1])

    def do_PATCH(self) -> None:
        number = int(self.path.removeprefix("/repos/o/r/issues/comments/"))
        (comment,) = [each for each in self.server.comments if each["id"] == number]
        comment |= self._body()
        self._answer(comment)

    def _body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, document: Any) -> None:
        self.server.requests.append((self.command, self.headers["Authorization"]))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run_step(github: GitHub, folder: Path, **inputs: str) -> str:
    """The step of the action that comments, as a runner would start it."""
    step = next(step for step in STEPS if step.get("name") == "Comment")
    temporary = folder.parent / "runner"
    if not temporary.exists():
        (temporary / "gpuproof").mkdir(parents=True)
        (temporary / "gpuproof" / "bin").symlink_to(Path(sys.executable).parent)
        (temporary / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    environment = {
        "ACTION": str(ROOT),
        "CHECK_PATHS": ".",
        "CHECK_ARGUMENTS": "",
        "PLAN_SCRIPTS": "false",
        "PLAN_PYTHON": sys.executable,
        "GITHUB_TOKEN": "secret",
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_PATH": str(temporary / "event.json"),
        "RUNNER_TEMP": str(temporary),
        "no_proxy": "127.0.0.1",
        **inputs,
    }
    assert set(step["env"]) <= set(environment)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checkout"
    path.mkdir()
    return path


def test_one_comment_is_created_and_kept_current(github: GitHub, folder: Path) -> None:
    github.comments = [{"id": number, "body": "Looks good."} for number in range(130)]
    github.files = [{"filename": "b.py", "status": "modified"}]
    (folder / "a.py").write_text(BAD)
    (folder / "b.py").write_text(BAD)
    run_step(github, folder)
    body = github.comments[-1]["body"]
    assert "2 findings, 1 of them in files that this pull request changes." in body
    assert body.index("b.py:1") < body.index("a.py:1")
    assert "[E901](https://github.com/gpuproof/gpuproof/blob/main/docs/rules/E901.md) error" in body
    (folder / "a.py").write_text("x = 1\n")
    (folder / "b.py").write_text("x = 1\n")
    run_step(github, folder)
    assert len(github.comments) == 131
    assert "No errors and no warnings." in github.comments[-1]["body"]
    assert {token for _, token in github.requests} == {"Bearer secret"}


def test_a_clean_pull_request_has_no_comment(github: GitHub, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\n")
    run_step(github, folder)
    assert github.comments == []


def test_names_and_messages_are_no_markup(github: GitHub, folder: Path) -> None:
    (folder / "a|b@team [x](y).py").write_text(BAD)
    run_step(github, folder)
    row = github.comments[0]["body"].splitlines()[-1]
    assert row.startswith("| a\\|b@\u200bteam \\[x\\](y).py:1 |")


def test_without_permission_the_log_says_what_is_missing(github: GitHub, folder: Path) -> None:
    github.status = 403
    (folder / "a.py").write_text(BAD)
    assert "the job needs `permissions: pull-requests: write`" in run_step(github, folder)


@pytest.mark.journey
def test_a_changed_job_is_planned_without_the_token(github: GitHub, folder: Path) -> None:
    script = (
        "import os\n\nimport torch\n\nassert 'GITHUB_TOKEN' not in os.environ\n"
        "model = torch.nn.Linear(8, 1).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(20):\n    optimizer.zero_grad()\n"
        "    model(torch.rand(4, 8, device='cuda')).sum().backward()\n    optimizer.step()\n"
        "torch.save(model.state_dict(), os.environ['SM_MODEL_DIR'] + '/model.pt')\n"
    )
    (folder / "train.py").write_text(script)
    (folder / "gpuproof.yaml").write_text(
        "entry_point: train.py\nframework: pytorch\ninstance_type: ml.g5.xlarge\n"
    )
    (folder / "other").mkdir()
    (folder / "other" / "gpuproof.yaml").write_text("entry_point: missing.py\nframework: pytorch\n")
    github.files = [
        {"filename": "gpuproof.yaml", "status": "added"},
        {"filename": "other/gpuproof.yaml", "status": "added"},
    ]
    output = run_step(github, folder, PLAN_SCRIPTS="true")
    assert "other/gpuproof.yaml cannot be planned" in output
    rows = [row for row in github.comments[0]["body"].splitlines() if row.startswith("| gpuproof.yaml |")]
    assert len(rows) == 1
    assert "GiB" in rows[0]
    assert "$" in rows[0]
