"""Requests to S3, except for transfers of whole files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import urlencode

from gpuproof.backends.aws.error_translation import stream_errors
from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable
from gpuproof.backends.aws.s3_object import S3Object
from gpuproof.backends.aws.services.s3_stream import ObjectStream
from gpuproof.backends.aws.session import AwsSession

_ATTEMPTS = 4
_CHUNK = 1 << 18
_DELETED_AT_A_TIME = 1000
_MISSING = ("404", "NoSuchKey", "NoSuchBucket", "NotFound")


class S3Calls(AwsSession):
    """The client's methods for S3."""

    def bucket_region(self, bucket: str, *, owner: str | None = None) -> str | None:
        """The region of a bucket; None if it does not exist.

        Args:
            owner: the account that must own it.

        Raises:
            AwsRefused: with `is_permission` if the bucket belongs to another account, or a permission is missing.
        """
        request = {"Bucket": bucket} if owner is None else {"Bucket": bucket, "ExpectedBucketOwner": owner}
        answer = self._find("s3", "head_bucket", request, f"s3://{bucket}", _MISSING)
        if answer is None:
            return None
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        # S3 emulators return no region: their buckets exist in every region.
        return answer.get("BucketRegion") or headers.get("x-amz-bucket-region") or self.region

    def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        """All objects whose keys start with a prefix, sorted by key."""
        request = {"Bucket": bucket, "Prefix": prefix}
        for item in self._items("s3", "list_objects_v2", "Contents", request, f"s3://{bucket}/{prefix}"):
            yield S3Object(bucket, item["Key"], item["Size"], item["ETag"], item["LastModified"].timestamp())

    def object(self, bucket: str, key: str) -> S3Object | None:
        """One object; None if it does not exist."""
        request = {"Bucket": bucket, "Key": key}
        head = self._find("s3", "head_object", request, f"s3://{bucket}/{key}", _MISSING)
        if head is None:
            return None
        return S3Object(bucket, key, head["ContentLength"], head["ETag"], head["LastModified"].timestamp())

    def put_object(
        self,
        bucket: str,
        key: str,
        content: bytes,
        *,
        kms_key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Write a small object with one request; an existing object is replaced."""
        request = {"Bucket": bucket, "Key": key, "Body": content, **encryption(kms_key)}
        if tags:
            request["Tagging"] = urlencode(tags)
        self._request("s3", "put_object", request, f"s3://{bucket}/{key}")

    def delete_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete objects; missing objects are not an error."""
        left = iter(keys)
        while batch := list(islice(left, _DELETED_AT_A_TIME)):
            request = {"Objects": [{"Key": key} for key in batch], "Quiet": True}
            answer = self._request(
                "s3", "delete_objects", {"Bucket": bucket, "Delete": request}, f"s3://{bucket}"
            )
            for problem in answer.get("Errors", ()):
                raise self._not_deleted(bucket, problem)

    def get_bytes(self, bucket: str, key: str) -> bytes | None:
        """The content of a small object; None if it does not exist."""
        try:
            with self.open_object(bucket, key) as stream:
                return stream.read()
        except AwsRefused as refused:
            if refused.code in _MISSING:
                return None
            raise

    def open_object(self, bucket: str, key: str) -> BinaryIO:
        """An object's content as a stream, which continues after a lost connection."""
        first = self.get_object(bucket, key)

        def open_at(start: int) -> Any:
            return self.get_object(bucket, key, Range=f"bytes={start}-", IfMatch=first["ETag"])["Body"]

        def translated() -> contextlib.AbstractContextManager[None]:
            return self._translated("s3", "GetObject", f"s3://{bucket}/{key}")

        stream = ObjectStream(first["Body"], first["ContentLength"], open_at, translated, self._sleep)
        return io.BufferedReader(stream, _CHUNK)

    def read_object(
        self, item: S3Object, start: int, length: int, write: Callable[[int, bytes], None]
    ) -> None:
        """Read a part of an object; after a lost connection, the part is read again from its start.

        Args:
            item: as listed; changed content is an error.
            start: offset of the part, in bytes.
            length: its length in bytes, at least 1.
            write: called with the offset and content of each piece; pieces are repeated after a lost connection.
        """
        with self._translated("s3", "GetObject", str(item)):
            for attempt in range(1, _ATTEMPTS):
                try:
                    self._read_once(item, start, length, write)
                except stream_errors():
                    self._sleep(0.25 * 2**attempt)
                else:
                    return
            self._read_once(item, start, length, write)

    def get_object(self, bucket: str, key: str, **more: Any) -> dict[str, Any]:
        """The response of GetObject, with an unread body; `more` are further members of the request."""
        return self._request(
            "s3", "get_object", {"Bucket": bucket, "Key": key, **more}, f"s3://{bucket}/{key}"
        )

    def _read_once(
        self, item: S3Object, start: int, length: int, write: Callable[[int, bytes], None]
    ) -> None:
        part = {"Range": f"bytes={start}-{start + length - 1}"} if length < item.size else {}
        answer = self.get_object(item.bucket, item.key, IfMatch=item.etag, **part)
        with contextlib.closing(answer["Body"]) as body:
            if answer["ContentLength"] != length:
                raise AwsUnreachable(
                    f"{item}: requested {length} bytes, but received {answer['ContentLength']}.",
                    remedy="Check the proxy (HTTPS_PROXY) and AWS_ENDPOINT_URL.",
                    operation="GetObject",
                )
            at = start
            while content := body.read(_CHUNK):
                write(at, content)
                at += len(content)

    def _not_deleted(self, bucket: str, problem: dict[str, Any]) -> AwsRefused:
        code, message = str(problem.get("Code")), str(problem.get("Message") or "")
        return AwsRefused(
            f"s3://{bucket}/{problem.get('Key')}: {code}: {message.rstrip('.')} (DeleteObjects).",
            remedy="Request s3:DeleteObject on it (`gpuproof iam policy --user`); a bucket with object lock does not delete objects.",
            code=code,
            operation="DeleteObjects",
            aws_message=message,
        )


def encryption(kms_key: str | None) -> dict[str, str]:
    """The members of a request that encrypt with a KMS key; none for the bucket's default encryption."""
    return {} if kms_key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}
