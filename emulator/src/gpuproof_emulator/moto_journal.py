"""Keeps moto's state across restarts: a journal of the requests that change state, replayed at the start.

Moto keeps its state in memory and cannot export it. But it draws its ids from one random generator that can be seeded, so
the same requests in the same order with the same seeds create the same buckets, instances and keys. Seeds are random: from a
known seed, any program could compute the secret keys. Only S3's upload ids come from elsewhere: the old ones are mapped to the new.
Times are those of the replay.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from gpuproof_emulator.protocol import AwsRequest, AwsResponse

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_INLINE = 1 << 16  # bytes of a body stored in the journal itself
_SEED_BITS = 63
_DESCRIBE_VPCS = b"Action=DescribeVpcs&Version=2016-11-15"
_STORED_MEMBERS = (
    "REQUEST_METHOD",
    "PATH_INFO",
    "QUERY_STRING",
    "CONTENT_TYPE",
    "SERVER_NAME",
    "SERVER_PORT",
    "moto.preserved_header_names",
)


class Journal:
    """Moto with persistent state.

    Args:
        application: moto's WSGI application.
        seed: seeds the generator of moto's ids.
        folder: where the journal is; created if necessary.
    """

    def __init__(self, application: Application, seed: Callable[[int], object], folder: Path) -> None:
        self._application = application
        self._seed = seed
        self._folder = folder
        self._blobs = folder / "blobs"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._uploads: dict[str, str] = {}
        self._ec2_regions: set[str] = set()
        self._file = self._open()

    def handle(self, request: AwsRequest, *, read_only: bool) -> AwsResponse:
        """Return moto's response; record the request if it changed state."""
        _, region, service = request.scope
        if service == "ec2":
            self._create_network(request, region)
        if read_only:
            return self._call_moto(request.environ)
        with self._lock:
            return self._handle_recorded(request)

    def replay(self) -> int:
        """Replay the journal; returns the number of requests."""
        path = self._folder / "journal.jsonl"
        entries = 0
        complete = 0
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the emulator was killed while writing
                complete += len(line)
                entries += 1
                entry = json.loads(line)
                # Journals of earlier versions have consecutive numbers.
                self._seed(entry["seed"] if "seed" in entry else entry["number"])
                self._replay_entry(entry)
        with path.open("ab") as file:
            file.truncate(complete)
        return entries

    def clear(self, reset: Callable[[], object]) -> None:
        """Forget all requests.

        Args:
            reset: clears moto's state.
        """
        with self._lock:
            reset()
            self._file.truncate(0)
            self._uploads.clear()
            self._ec2_regions.clear()
            for blob in self._blobs.iterdir():
                blob.unlink()

    def close(self) -> None:
        """Close the journal's file."""
        with self._lock:
            self._file.close()

    def _create_network(self, request: AwsRequest, region: str) -> None:
        """Have moto create a region's default VPC, with ids that a replay creates again.

        Moto creates it with the first request to EC2 in the region, which may be one that is not recorded.
        """
        if region in self._ec2_regions:
            return
        with self._lock:
            if region not in self._ec2_regions:
                self._handle_recorded(_describe_vpcs(request))
                self._ec2_regions.add(region)

    def _handle_recorded(self, request: AwsRequest) -> AwsResponse:
        seed = secrets.randbits(_SEED_BITS)
        self._seed(seed)
        response = self._call_moto(request.environ)
        if response.status < 400:
            self._write(seed, request, _upload_id(response))
        return response

    def _replay_entry(self, entry: Mapping[str, Any]) -> None:
        what = f"{entry['environ']['REQUEST_METHOD']} {entry['environ']['PATH_INFO']}"
        try:
            with self._body(entry) as body:
                request = AwsRequest(_environ(entry["environ"], body, entry["size"]), body, entry["size"])
                response = self._call_moto(request.environ)
        except Exception as error:  # noqa: BLE001 - another version of moto may reject one request
            _warn(what, f"{type(error).__name__}: {error}")
            return
        if response.status >= 400:
            _warn(what, b"".join(response.body)[:200].decode(errors="replace"))
        _, region, service = request.scope
        if service == "ec2":
            self._ec2_regions.add(region)
        if upload := entry.get("upload"):
            self._uploads[upload] = _upload_id(response)

    def _open(self) -> IO[bytes]:
        return (self._folder / "journal.jsonl").open("ab", buffering=0)

    def _call_moto(self, environ: dict[str, Any]) -> AwsResponse:
        environ = self._map_upload_id(environ)
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
        return AwsResponse(int(status.split()[0]), tuple(headers), body)

    def _map_upload_id(self, environ: dict[str, Any]) -> dict[str, Any]:
        query = environ.get("QUERY_STRING", "")
        found = re.search(r"uploadId=([^&]+)", query)
        new = self._uploads.get(found[1]) if found else None
        return {**environ, "QUERY_STRING": query.replace(found[1], new)} if found and new else environ

    def _write(self, seed: int, request: AwsRequest, upload: str) -> None:
        environ = {
            name: value
            for name, value in request.environ.items()
            if isinstance(value, str | dict) and (name in _STORED_MEMBERS or name.startswith("HTTP_"))
        }
        entry: dict[str, Any] = {"seed": seed, "environ": environ, "size": request.size}
        if upload:
            entry["upload"] = upload
        request.body.seek(0)
        if request.size <= _INLINE:
            entry["body"] = base64.b64encode(request.body.read()).decode()
        else:
            entry["blob"] = self._store_blob(request.body)
        self._file.write(json.dumps(entry).encode() + b"\n")

    def _store_blob(self, body: IO[bytes]) -> str:
        digest = hashlib.file_digest(body, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
        path = self._blobs / digest
        if not path.exists():
            body.seek(0)
            temporary = path.with_name(f".{digest}.new")
            with temporary.open("wb") as file:
                shutil.copyfileobj(body, file, 1 << 20)
            temporary.rename(path)
        return digest

    def _body(self, entry: Mapping[str, Any]) -> IO[bytes]:
        if "blob" in entry:
            return (self._blobs / entry["blob"]).open("rb")
        return io.BytesIO(base64.b64decode(entry["body"]))


def _upload_id(response: AwsResponse) -> str:
    """The upload id in a response to `CreateMultipartUpload`; empty for other operations."""
    found = re.search(
        rb"<InitiateMultipartUploadResult.*<UploadId>([^<]+)</UploadId>", b"".join(response.body), re.DOTALL
    )
    return found[1].decode() if found else ""


def _describe_vpcs(request: AwsRequest) -> AwsRequest:
    """`DescribeVpcs` in the region of a request to EC2."""
    environ = {
        **request.environ,
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8",
    }
    return AwsRequest(environ, request.body, request.size).with_body(_DESCRIBE_VPCS)


def _warn(what: str, why: str) -> None:
    print(f"gpuproof: {what} could not be replayed: {why}", file=sys.stderr)


def _unused_write(_: bytes) -> None:
    """The legacy `write` callable of WSGI."""


def _environ(stored: Mapping[str, str], body: IO[bytes], size: int) -> dict[str, Any]:
    return {
        **stored,
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
