"""The steps that store the files of a run in its bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.execute import step_of, undo_of
from gpuproof.backends.remote.s3_layout import input_prefix, manifest_key, object_key
from gpuproof.backends.remote.upload.content_hash import HashedFile
from gpuproof.backends.remote.upload.input_folder import InputFolder
from gpuproof.backends.remote.upload.upload import upload_folder, upload_object
from gpuproof.backends.remote.upload.upload_plan import UploadPlan
from gpuproof.backends.transaction import Remaining, Transaction, Undo

UPLOADS_STAY = "uploaded files stay in the bucket and are not uploaded again"


def is_worth_retrying(error: BaseException) -> bool:
    """Whether the same job may succeed when it is run again, so that its uploads are kept."""
    return isinstance(error, NoCapacity | AwsUnreachable)


def describe_remaining(remaining: Remaining) -> str:
    """The note about something that remains of a run."""
    if remaining.reason == "kept":
        return UPLOADS_STAY
    if remaining.reason == "in use":
        return ""  # what stops the job or instance finds it
    why = "interrupted repeatedly." if remaining.reason == "interrupted" else remaining.why
    return f"not deleted: {remaining.undo.what}: {why} {remaining.remedy}".rstrip()


@dataclass(frozen=True)
class RunFiles:
    """The files of one run: its bucket, the uploads, and the code channel.

    Args:
        bucket: the bucket, which is created if necessary.
        progress: told about each step.
        kms_key: encrypts them; the bucket's default if None.
    """

    aws: Aws
    transaction: Transaction
    bucket: BucketPlan
    uploads: UploadPlan
    progress: SubmitProgress
    kms_key: str | None = None

    def create_bucket(self) -> None:
        """Create the bucket, if the plan says so."""
        for call in self.bucket.calls:
            self.transaction.execute(step_of(self.aws, call, kept_after=is_worth_retrying))

    def upload(self) -> None:
        """Upload the agent, the source and the input folders, as far as the bucket lacks them."""
        self._upload_file("the agent", self.uploads.agent)
        self._upload_file("the source", self.uploads.source)
        for name, folder in self.uploads.folders.items():
            self._upload_folder(f"the input {name}", folder)

    def fill_code_channel(self, calls: Sequence[ApiCall]) -> None:
        """Copy the uploaded agent and source into the code channel.

        Args:
            calls: of `code_channel.code_calls`.
        """
        self.progress.step("copy the agent and the source into the code channel")
        try:
            self._copy(calls)
        except AwsRefused as refused:
            # Another submission of the same files was interrupted and has deleted them.
            if refused.code not in ("NoSuchKey", "404"):
                raise
            self.upload()
            self._copy(calls)

    def undo_written(self, prefix: str) -> Undo:
        """The undo that deletes what a job or an instance has written below a prefix."""

        def delete() -> None:
            self.aws.delete_objects(
                self.bucket.name, [item.key for item in self.aws.list_objects(self.bucket.name, prefix)]
            )

        return Undo(f"delete files below s3://{self.bucket.name}/{prefix}", delete, needed=True)

    def _copy(self, calls: Sequence[ApiCall]) -> None:
        for call in calls:
            self.transaction.execute(step_of(self.aws, call, shown=False))

    def _upload_file(self, what: str, file: HashedFile) -> None:
        bucket, key = self.bucket.name, object_key(file.digest)
        self.progress.step(f"upload {what}")
        if self._is_missing(key):
            self._note_upload(bucket, [key], what)
        upload_object(self.aws, bucket, file, kms_key=self.kms_key, progress=self._transfer_callback(what))

    def _upload_folder(self, what: str, folder: InputFolder) -> None:
        bucket, prefix = self.bucket.name, input_prefix(folder.digest)
        self.progress.step(f"upload {what}")
        present = {item.key for item in self.aws.list_objects(bucket, prefix)}
        missing = [key for name in folder.files if (key := f"{prefix}{name}") not in present]
        manifest = manifest_key(folder.digest)
        if missing:
            self._note_upload(bucket, [*missing, manifest], what)
        upload_folder(self.aws, bucket, folder, kms_key=self.kms_key, progress=self._transfer_callback(what))

    def _note_upload(self, bucket: str, keys: Sequence[str], what: str) -> None:
        deletion = deletion_call(bucket, keys, what)
        self.transaction.note(undo_of(self.aws, deletion, kept_after=is_worth_retrying))

    def _is_missing(self, key: str) -> bool:
        try:
            return self.aws.object(self.bucket.name, key) is None
        except AwsRefused:
            return False

    def _transfer_callback(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress.transfer(f"Uploading {what}", done, total)


def deletion_call(bucket: str, keys: Sequence[str], what: str) -> ApiCall:
    """The call that deletes objects.

    Args:
        what: what they are, for the user.
    """
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}}
    return ApiCall("s3", "delete_objects", request, f"delete {what} from {bucket}")
