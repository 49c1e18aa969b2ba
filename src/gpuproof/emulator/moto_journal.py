"""What moto knows, kept across restarts: a journal of the requests that changed something, replayed at the start.

Moto keeps everything in memory and cannot be asked for it. But it draws every id that it makes up from one random
generator that may be seeded, so the same requests with the same seeds, one after the other, make the same buckets,
instances and keys. Only S3's upload ids come from elsewhere: the old ones are translated. Times are those of the replay.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from gpuproof.emulator.protocol import Answer, AwsRequest

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_INLINE = 1 << 16  # bytes of a body that stand in the journal itself
_KEPT = (
    "REQUEST_METHOD",
    "PATH_INFO",
    "QUERY_STRING",
    "CONTENT_TYPE",
    "SERVER_NAME",
    "SERVER_PORT",
    "moto.preserved_header_names",
)


class Journal:
    """Moto with a memory.

    Args:
        application: moto's WSGI application.
        seed: makes moto's ids follow from a number.
        folder: where the journal lies; made if need be.
    """

    def __init__(self, application: Application, seed: Callable[[int], object], folder: Path) -> None:
        self._application = application
        self._seed = seed
        self._folder = folder
        self._blobs = folder / "blobs"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._next = 1
        self._uploads: dict[str, str] = {}
        self._file = self._open()

    def answer(self, request: AwsRequest, *, only_reads: bool) -> Answer:
        """Moto's answer; a request that changed something is written down."""
        if only_reads:
            return self._ask(request.environ)
        with self._lock:
            number = self._next
            self._next += 1
            self._seed(number)
            answer = self._ask(request.environ)
            if answer.status < 400:
                self._write(number, request, _upload_id(answer))
            return answer

    def replay(self) -> int:
        """Do again what the journal tells; how many requests that were."""
        path = self._folder / "journal.jsonl"
        entries = 0
        whole = 0
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the emulator was killed while it wrote
                whole += len(line)
                entries += 1
                entry = json.loads(line)
                self._next = entry["number"] + 1
                self._seed(entry["number"])
                self._repeat(entry)
        with path.open("ab") as file:
            file.truncate(whole)
        return entries

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._file.close()

    def _repeat(self, entry: Mapping[str, Any]) -> None:
        what = f"{entry['environ']['REQUEST_METHOD']} {entry['environ']['PATH_INFO']}"
        try:
            with self._body(entry) as body:
                answer = self._ask(_environ(entry["environ"], body, entry["size"]))
        except Exception as error:  # noqa: BLE001 - one request that another moto does not take is not the end
            _complain(what, f"{type(error).__name__}: {error}")
            return
        if answer.status >= 400:
            _complain(what, b"".join(answer.body)[:200].decode(errors="replace"))
        if upload := entry.get("upload"):
            self._uploads[upload] = _upload_id(answer)

    def _open(self) -> IO[bytes]:
        return (self._folder / "journal.jsonl").open("ab", buffering=0)

    def _ask(self, environ: dict[str, Any]) -> Answer:
        environ = self._translated(environ)
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _error: object = None) -> Callable[..., None]:
            started.append((status, headers))
            return _unused_write

        parts = self._application(environ, start)
        body = list(parts)
        status, headers = started[-1]
        close = getattr(parts, "close", None)
        if close:
            close()
        return Answer(int(status.split()[0]), tuple(headers), body)

    def _translated(self, environ: dict[str, Any]) -> dict[str, Any]:
        query = environ.get("QUERY_STRING", "")
        found = re.search(r"uploadId=([^&]+)", query)
        new = self._uploads.get(found[1]) if found else None
        return {**environ, "QUERY_STRING": query.replace(found[1], new)} if found and new else environ

    def _write(self, number: int, request: AwsRequest, upload: str) -> None:
        environ = {
            name: value
            for name, value in request.environ.items()
            if isinstance(value, str | dict) and (name in _KEPT or name.startswith("HTTP_"))
        }
        entry: dict[str, Any] = {"number": number, "environ": environ, "size": request.size}
        if upload:
            entry["upload"] = upload
        request.body.seek(0)
        if request.size <= _INLINE:
            entry["body"] = base64.b64encode(request.body.read()).decode()
        else:
            entry["blob"] = self._keep(request.body)
        self._file.write(json.dumps(entry).encode() + b"\n")

    def _keep(self, body: IO[bytes]) -> str:
        digest = hashlib.file_digest(body, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
        path = self._blobs / digest
        if not path.exists():
            body.seek(0)
            beside = path.with_name(f".{digest}.new")
            with beside.open("wb") as file:
                shutil.copyfileobj(body, file, 1 << 20)
            beside.rename(path)
        return digest

    def _body(self, entry: Mapping[str, Any]) -> IO[bytes]:
        if "blob" in entry:
            return (self._blobs / entry["blob"]).open("rb")
        return io.BytesIO(base64.b64decode(entry["body"]))


def _upload_id(answer: Answer) -> str:
    """The id in the answer of `CreateMultipartUpload`; empty for any other."""
    found = re.search(
        rb"<InitiateMultipartUploadResult.*<UploadId>([^<]+)</UploadId>", b"".join(answer.body), re.DOTALL
    )
    return found[1].decode() if found else ""


def _complain(what: str, why: str) -> None:
    print(f"gpuproof: {what} could not be done again: {why}", file=sys.stderr)


def _unused_write(_: bytes) -> None:
    """What WSGI once wanted to be returned."""


def _environ(kept: Mapping[str, str], body: IO[bytes], size: int) -> dict[str, Any]:
    return {
        **kept,
        "SCRIPT_NAME": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(size),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
