"""Stores the files of a run in its bucket, and deletes what it has stored after an error or an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.bucket import BucketPlan
from gpuproof.backends.remote.execute import UndoLog, execute
from gpuproof.backends.remote.s3_layout import input_prefix, manifest_key, object_key
from gpuproof.backends.remote.upload.content_hash import HashedFile
from gpuproof.backends.remote.upload.input_folder import InputFolder
from gpuproof.backends.remote.upload.upload import upload_folder, upload_object
from gpuproof.backends.remote.upload.upload_plan import UploadPlan


class RunFiles:
    """The files of one run: its bucket, the uploads, and the code channel.

    Args:
        aws: the client.
        bucket: the bucket, which is created if necessary.
        uploads: the files to upload.
        kms_key: encrypts them; the bucket's default if None.
        progress: told about each step.
    """

    def __init__(
        self,
        aws: Aws,
        bucket: BucketPlan,
        uploads: UploadPlan,
        progress: SubmitProgress,
        kms_key: str | None = None,
    ) -> None:
        self._aws = aws
        self._bucket = bucket
        self._uploads = uploads
        self._progress = progress
        self._kms_key = kms_key
        self._bucket_undo, self._upload_undo = UndoLog(aws), UndoLog(aws)
        self.run_undo = UndoLog(aws)
        """The calls that undo what belongs to this run only."""

    def create_bucket(self) -> None:
        """Create the bucket, if the plan says so."""
        for call in self._bucket.calls:
            self._progress.step(call.what)
            self._bucket_undo.add(call.undo)
            try:
                execute(self._aws, call)
            except AwsRefused as refused:
                # Another run created it in the meantime, so this one must not delete it.
                if refused.code != "BucketAlreadyOwnedByYou":
                    raise
                self._bucket_undo.discard(call.undo)

    def upload(self) -> None:
        """Upload the agent, the source and the input folders, as far as the bucket lacks them."""
        self._upload_file("the agent", self._uploads.agent)
        self._upload_file("the source", self._uploads.source)
        for name, folder in self._uploads.folders.items():
            self._upload_folder(f"the input {name}", folder)

    def fill_code_channel(self, calls: Sequence[ApiCall]) -> None:
        """Copy the uploaded agent and source into the code channel.

        Args:
            calls: of `code_channel.code_calls`.
        """
        for call in calls:
            self.run_undo.add(call.undo)
        self._progress.step("copy the agent and the source into the code channel")
        try:
            self._copy(calls)
        except AwsRefused as refused:
            # Another submission of the same files was interrupted and has deleted them.
            if refused.code not in ("NoSuchKey", "404"):
                raise
            self.upload()
            self._copy(calls)

    def roll_back(self, *, keep_uploads: bool) -> list[str]:
        """Delete what was created; returns messages about what could not be deleted.

        Args:
            keep_uploads: keep what the same job would upload again.
        """
        problems = self.run_undo.roll_back()
        if keep_uploads:
            self._progress.report("note", "uploaded files stay in the bucket and are not uploaded again")
            return problems
        return [*problems, *self._upload_undo.roll_back(), *self._bucket_undo.roll_back()]

    def _copy(self, calls: Sequence[ApiCall]) -> None:
        for call in calls:
            execute(self._aws, call)

    def _upload_file(self, what: str, file: HashedFile) -> None:
        bucket, key = self._bucket.name, object_key(file.digest)
        self._progress.step(f"upload {what}")
        if self._is_missing(key):
            self._upload_undo.add(deletion_call(bucket, [key], what))
        upload_object(self._aws, bucket, file, kms_key=self._kms_key, progress=self._transfer_callback(what))

    def _upload_folder(self, what: str, folder: InputFolder) -> None:
        bucket, prefix = self._bucket.name, input_prefix(folder.digest)
        self._progress.step(f"upload {what}")
        present = {item.key for item in self._aws.list_objects(bucket, prefix)}
        missing = [key for name in folder.files if (key := f"{prefix}{name}") not in present]
        manifest = manifest_key(folder.digest)
        if missing:
            self._upload_undo.add(deletion_call(bucket, [*missing, manifest], what))
        upload_folder(
            self._aws, bucket, folder, kms_key=self._kms_key, progress=self._transfer_callback(what)
        )

    def _is_missing(self, key: str) -> bool:
        try:
            return self._aws.object(self._bucket.name, key) is None
        except AwsRefused:
            return False

    def _transfer_callback(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self._progress.transfer(f"Uploading {what}", done, total)


def deletion_call(bucket: str, keys: Sequence[str], what: str) -> ApiCall:
    """The call that deletes objects.

    Args:
        what: what they are, for the user.
    """
    request = {"Bucket": bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}}
    return ApiCall("s3", "delete_objects", request, f"delete {what} from {bucket}")
