"""Receipts of runs: what is in them, and that every change of a signed one is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.app.receipts import Receipt, Signers, read_receipt, receipt_of, sign_receipt, verify_receipt
from gpuproof.app.receipts.document import verdict_digest
from gpuproof.app.receipts.receipt_file import NewerReceipt, NotAReceipt
from gpuproof.app.receipts.ssh_signature import NAMESPACE, NoSshKeygen, signed_by
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.jobs.source.digests import tree_digest
from gpuproof.jobs.source.tree import collect
from gpuproof.util.atomic import write_json

MakeRun = Callable[..., LocalRun]
MakeKey = Callable[[str], Path]
CREATED = 1_790_000_100.0


@pytest.fixture
def key(make_key: MakeKey) -> Path:
    return make_key("key")


def public(key: Path) -> Path:
    return key.with_name(f"{key.name}.pub")


def allowed(key: Path, options: str = "", name: str = "me@example.com") -> Path:
    path = key.with_name(f"{key.name}.allowed")
    path.write_text(f"{name} {options} {public(key).read_text()}")
    return path


def signed(run: LocalRun, key: Path) -> Receipt:
    return sign_receipt(Receipt(receipt_of(run, now=CREATED)), key)


def code(receipt: Receipt, signers: Signers | None = None, **against: Any) -> ExitCode:
    return verify_receipt(receipt, signers or Signers(), **against).exit_code


def text_of(receipt: Receipt, signers: Signers) -> str:
    return verify_receipt(receipt, signers).checks[0].text


class TestContent:
    def test_it_says_what_ran_where_and_what_it_did(self, make_run: MakeRun) -> None:
        run = make_run()
        receipt = receipt_of(run, now=CREATED)
        assert receipt["run"]["started"] == "2026-09-21T14:13:21.500Z"
        assert receipt["code"]["git"] == {"commit": "cd" * 20, "dirty": False}
        assert receipt["inputs"] == {"training": {"uri": "s3://bucket/data/"}}
        assert receipt["verdict"]["outcome"] == "used"
        assert receipt["verdict"]["energy"]["gpus"] == 1
        assert receipt["verdict"]["gpus"][0]["worked"] is True
        assert receipt["verdict"]["sha256"] == verdict_digest(run.verdict or {})

    def test_it_has_no_paths_arguments_and_series(self, make_run: MakeRun) -> None:
        text = json.dumps(receipt_of(make_run()))
        for private in ("secret-project", "s3cret", "series"):
            assert private not in text

    def test_cost_instance_and_image_are_those_of_the_record(self, make_run: MakeRun) -> None:
        billed = {
            "instance_type": "ml.g5.xlarge",
            "instance_count": 2,
            "region": "us-east-1",
            "spot": True,
            "billed_seconds": 61.0,
            "cost_usd": 0.04767,
            "image": f"123.dkr.ecr.us-east-1.amazonaws.com/train@sha256:{'ef' * 32}",
        }
        receipt = receipt_of(make_run(**billed))
        assert receipt["machine"] == {
            "instance_type": "ml.g5.xlarge",
            "instance_count": 2,
            "region": "us-east-1",
            "spot": True,
        }
        assert receipt["cost"] == {"usd": 0.04767, "is_derived": False, "billed_seconds": 61.0}
        assert receipt["image"]["sha256"] == "ef" * 32

    def test_the_digest_of_an_image_with_a_tag_is_unknown(self, make_run: MakeRun) -> None:
        assert receipt_of(make_run(image="train:latest"))["image"] == {"uri": "train:latest", "sha256": None}

    def test_a_run_of_an_older_version_has_no_digests(self, make_run: MakeRun) -> None:
        receipt = receipt_of(make_run(provenance=None))
        assert (receipt["code"], receipt["inputs"], receipt["versions"]["gpuproof"]) == (None, None, None)

    def test_a_run_that_has_not_ended_has_no_receipt(self, make_run: MakeRun) -> None:
        with pytest.raises(UsageError, match="has not ended"):
            receipt_of(_Unended(make_run()))  # type: ignore[arg-type]

    def test_the_digest_of_a_verdict_does_not_depend_on_its_layout(self, make_run: MakeRun) -> None:
        verdict = make_run().verdict or {}
        assert verdict_digest(json.loads(json.dumps(verdict, indent=7, sort_keys=True))) == verdict_digest(
            verdict
        )


class _Unended:
    def __init__(self, run: LocalRun) -> None:
        self.id = self.cli_name = run.id
        self.record = run.record.__class__.of({**run.record.document, "status": "InProgress"})


class TestFile:
    def test_it_is_read_as_it_was_written(self, make_run: MakeRun, key: Path, tmp_path: Path) -> None:
        receipt = signed(make_run(), key)
        path = tmp_path / "receipt.json"
        path.write_text(receipt.to_text())
        assert read_receipt(path) == receipt
        assert read_receipt(path).to_text() == receipt.to_text()

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ('"receipt": {', '"note": 1, "receipt": {', "the unknown key 'note'"),
            ('"receipt": {', '"receipt": {"run": 1, "run": 2,', "occurs twice"),
            ('"version": 1,\n    "created"', '"version": 2,\n    "created"', "has another version"),
            ('"receipt": {', '"receipt": {"x": NaN,', "NaN"),
            ('"receipt": {', '"receipt": {"x": 1e999,', "no form in JSON"),
            ('"receipt": {', '"receipt": {"x": "\\ud800",', "surrogates not allowed"),
            (f'"namespace": "{NAMESPACE}"', '"namespace": "git"', "for 'git', not for receipts"),
            ('"version": 1', '"version": true', "its version is True"),
            ('"version": 1', '"version": null', "its version is None"),
        ],
    )
    def test_what_a_signature_would_not_cover_is_refused(
        self, make_run: MakeRun, key: Path, tmp_path: Path, old: str, new: str, why: str
    ) -> None:
        path = tmp_path / "receipt.json"
        text = signed(make_run(), key).to_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(NotAReceipt, match=why) as raised:
            read_receipt(path)
        assert raised.value.exit_code == ExitCode.FAILED

    @pytest.mark.parametrize("content", ["", "[]", "verdict", "{}", '{"version": 1}'])
    def test_another_file_is_not_a_receipt(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "other.json").write_text(content)
        with pytest.raises(NotAReceipt):
            read_receipt(tmp_path / "other.json")

    def test_a_newer_receipt_is_undecided_and_a_missing_one_wrong_usage(self, tmp_path: Path) -> None:
        (tmp_path / "newer.json").write_text('{"version": 2}')
        with pytest.raises(NewerReceipt) as raised:
            read_receipt(tmp_path / "newer.json")
        assert raised.value.exit_code == ExitCode.UNDECIDED
        with pytest.raises(UsageError):
            read_receipt(tmp_path / "missing.json")


def changes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document."""
    if isinstance(value, dict):
        for name in value:
            yield from changes(value[name], (*path, name))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from changes(item, (*path, number))
    else:
        yield path


def changed(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    copy = json.loads(json.dumps(document))
    part = copy
    for name in path[:-1]:
        part = part[name]
    value = part[path[-1]]
    part[path[-1]] = value + 1 if type(value) in (int, float) else f"{value}x"
    return copy


class TestSignature:
    def test_a_signed_receipt_verifies_by_key_and_by_allowed_signers(
        self, make_run: MakeRun, key: Path
    ) -> None:
        receipt = signed(make_run(), key)
        assert code(receipt, Signers(key=public(key))) == ExitCode.OK
        assert code(receipt, Signers(allowed(key))) == ExitCode.OK
        assert "me@example.com" in text_of(receipt, Signers(allowed(key)))
        assert code(receipt, Signers(allowed(key, f'namespaces="{NAMESPACE}"'))) == ExitCode.OK

    def test_a_change_of_any_value_is_found(self, make_run: MakeRun, key: Path) -> None:
        receipt = signed(make_run(instance_type="ml.g5.xlarge", billed_seconds=3.0, cost_usd=0.1), key)
        document = dict(receipt.document)
        paths = list(changes(document))
        assert len(paths) > 50
        kept = [
            path
            for path in paths
            if code(Receipt(changed(document, path), receipt.signature), Signers(key=public(key)))
            != ExitCode.FAILED
        ]
        assert kept == []

    def test_a_removed_and_an_added_key_are_found(self, make_run: MakeRun, key: Path) -> None:
        receipt = signed(make_run(), key)
        document = dict(receipt.document)
        removed = {name: value for name, value in document.items() if name != "cost"}
        for other in (removed, {**document, "more": 1}):
            assert code(Receipt(other, receipt.signature), Signers(allowed(key))) == ExitCode.FAILED

    def test_the_layout_of_the_file_is_no_change(self, make_run: MakeRun, key: Path, tmp_path: Path) -> None:
        receipt = signed(make_run(), key)
        path = tmp_path / "receipt.json"
        path.write_text(json.dumps(json.loads(receipt.to_text()), sort_keys=True, ensure_ascii=True))
        assert code(read_receipt(path), Signers(key=public(key))) == ExitCode.OK

    def test_another_key_is_not_taken(self, make_run: MakeRun, key: Path, make_key: MakeKey) -> None:
        receipt, other = signed(make_run(), key), make_key("other")
        assert code(receipt, Signers(key=public(other))) == ExitCode.FAILED
        assert code(receipt, Signers(allowed(other))) == ExitCode.UNDECIDED
        assert "not in" in text_of(receipt, Signers(allowed(other)))

    def test_without_a_key_to_compare_with_the_signer_is_unknown(self, make_run: MakeRun, key: Path) -> None:
        receipt = signed(make_run(), key)
        assert code(receipt) == ExitCode.UNDECIDED
        printed = subprocess.run(
            ["ssh-keygen", "-l", "-f", public(key)], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        assert printed in text_of(receipt, Signers())

    @pytest.mark.parametrize(
        "options", ['valid-before="20200101"', 'valid-after="29990101"', 'namespaces="git,file"']
    )
    def test_an_expired_key_and_one_for_other_purposes_may_not_sign(
        self, make_run: MakeRun, key: Path, options: str
    ) -> None:
        receipt = signed(make_run(), key)
        assert code(receipt, Signers(allowed(key, options))) == ExitCode.FAILED
        assert "may not sign receipts now" in text_of(receipt, Signers(allowed(key, options)))

    def test_a_revoked_key_may_not_sign(self, make_run: MakeRun, key: Path, tmp_path: Path) -> None:
        receipt, revoked = signed(make_run(), key), tmp_path / "revoked"
        subprocess.run(
            ["ssh-keygen", "-q", "-k", "-f", revoked, public(key)], check=True, capture_output=True
        )
        assert code(receipt, Signers(allowed(key), revoked=revoked)) == ExitCode.FAILED
        assert code(receipt, Signers(key=public(key), revoked=revoked)) == ExitCode.FAILED
        assert code(receipt, Signers(allowed(key), revoked=public(key))) == ExitCode.FAILED

    def test_a_signature_for_another_purpose_is_not_one_of_a_receipt(
        self, make_run: MakeRun, key: Path
    ) -> None:
        receipt = Receipt(receipt_of(make_run()))
        done = subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-f", key, "-n", "git"],
            input=receipt.content,
            capture_output=True,
            check=True,
        )
        for_git = Receipt(receipt.document, done.stdout.decode())
        assert signed_by(done.stdout.decode()).namespace == "git"
        assert code(for_git, Signers(key=public(key))) == ExitCode.FAILED
        assert code(for_git, Signers(allowed(key))) == ExitCode.FAILED

    def test_the_signature_of_another_run_does_not_fit(self, make_run: MakeRun, key: Path) -> None:
        first, second = signed(make_run(), key), signed(make_run("train-2"), key)
        assert code(Receipt(first.document, second.signature), Signers(key=public(key))) == ExitCode.FAILED

    @pytest.mark.parametrize(
        "damage", ["", "x", "-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----\n"]
    )
    def test_a_damaged_signature_does_not_verify(self, make_run: MakeRun, key: Path, damage: str) -> None:
        receipt = Receipt(receipt_of(make_run()), damage)
        assert code(receipt, Signers(key=public(key))) == ExitCode.FAILED

    def test_an_unsigned_receipt_proves_nothing_and_fails_where_a_signature_is_required(
        self, make_run: MakeRun, key: Path
    ) -> None:
        receipt = Receipt(receipt_of(make_run()))
        assert verify_receipt(receipt, Signers()).checks[0].result == "unsigned"
        assert code(receipt) == ExitCode.UNDECIDED
        assert code(receipt, Signers(key=public(key))) == ExitCode.FAILED

    def test_other_programs_can_check_the_signature(
        self, make_run: MakeRun, key: Path, tmp_path: Path
    ) -> None:
        receipt = signed(make_run(job_name="\u00e9t\u00e9"), key)
        (tmp_path / "sig").write_text(receipt.signature or "")
        (tmp_path / "receipt.json").write_text(receipt.to_text())
        if (jq := shutil.which("jq")) is None:
            pytest.skip("jq is not installed")
        content = subprocess.run(
            [jq, "-cjS", ".receipt", tmp_path / "receipt.json"], check=True, capture_output=True
        ).stdout
        words = ["ssh-keygen", "-Y", "verify", "-f", allowed(key), "-I", "me@example.com"]
        subprocess.run(
            [*words, "-n", NAMESPACE, "-s", tmp_path / "sig"],
            input=content,
            check=True,
            capture_output=True,
        )

    def test_a_key_that_cannot_sign_is_an_error(self, make_run: MakeRun, key: Path, tmp_path: Path) -> None:
        (tmp_path / "broken").write_text("no key")
        with pytest.raises(GPUproofError, match="could not sign"):
            signed(make_run(), tmp_path / "broken")
        with pytest.raises(UsageError, match="does not exist"):
            signed(make_run("train-2"), tmp_path / "missing")

    def test_without_ssh_keygen_a_signature_is_undecided(
        self, make_run: MakeRun, key: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        receipt = signed(make_run(), key)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(NoSshKeygen) as raised:
            verify_receipt(receipt, Signers(key=public(key)))
        assert raised.value.exit_code == ExitCode.UNDECIDED

    def test_a_file_of_signers_that_does_not_exist_and_a_private_key_are_wrong_usage(
        self, key: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="cannot be read"):
            Signers(allowed_signers=tmp_path / "missing")
        with pytest.raises(UsageError, match="private key"):
            Signers(key=key)

    def test_a_key_with_its_principal_before_it_is_a_key_too(self, make_run: MakeRun, key: Path) -> None:
        assert code(signed(make_run(), key), Signers(key=allowed(key))) == ExitCode.OK


class TestRun:
    def test_the_run_and_its_folder_fit(self, make_run: MakeRun) -> None:
        run = make_run()
        receipt = Receipt(receipt_of(run))
        assert code(receipt, run=run) == ExitCode.OK
        assert code(receipt, run=run.paths.root) == ExitCode.OK

    def test_another_verdict_does_not_fit(self, make_run: MakeRun) -> None:
        run = make_run()
        receipt = Receipt(receipt_of(run))
        write_json(run.paths.verdict, {**(run.verdict or {}), "gpus_working": 0})
        assert code(receipt, run=run) == ExitCode.FAILED
        assert code(receipt, run=run.paths.root) == ExitCode.FAILED

    def test_another_run_does_not_fit(self, make_run: MakeRun) -> None:
        found = verify_receipt(Receipt(receipt_of(make_run())), Signers(), run=make_run("train-2"))
        assert found.exit_code == ExitCode.FAILED
        assert "differs from the receipt in: run" in found.checks[1].text

    def test_a_changed_receipt_of_the_same_run_does_not_fit(self, make_run: MakeRun) -> None:
        run = make_run()
        document = receipt_of(run)
        other = {**document, "machine": {**document["machine"], "instance_type": "ml.p5.48xlarge"}}
        assert code(Receipt(other), run=run) == ExitCode.FAILED

    def test_a_key_that_is_not_known_stays_undecided(self, make_run: MakeRun, key: Path) -> None:
        run = make_run()
        assert code(signed(run, key), run=run) == ExitCode.UNDECIDED


class TestSource:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        folder = tmp_path / "source"
        (folder / "data").mkdir(parents=True)
        (folder / "train.py").write_text("1\n")
        (folder / "data" / "x.csv").write_text("2\n")
        return folder

    def receipt(self, make_run: MakeRun, source: Path) -> Receipt:
        tree = collect(source, "train.py", exclude=[source / "data"])
        selection = {"entry_point": "train.py", "include": [], "respect_gitignore": True, "exclude": ["data"]}
        made = {"code": tree_digest(tree).to_json(), "selection": selection, "git": None, "inputs": {}}
        return Receipt(receipt_of(make_run(provenance=made)))

    def test_the_same_files_fit_and_what_was_an_input_does_not_matter(
        self, make_run: MakeRun, source: Path
    ) -> None:
        receipt = self.receipt(make_run, source)
        (source / "data" / "x.csv").write_text("3\n")
        (source / "__pycache__").mkdir()
        (source / "__pycache__" / "train.pyc").write_text("")
        assert code(receipt, source=source) == ExitCode.OK

    def test_a_changed_file_does_not_fit(self, make_run: MakeRun, source: Path) -> None:
        receipt = self.receipt(make_run, source)
        (source / "train.py").write_text("4\n")
        assert code(receipt, source=source) == ExitCode.FAILED

    @pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"x": 1}, "../..", "\0"])
    def test_whatever_a_receipt_contains_is_compared_or_refused(
        self, make_run: MakeRun, source: Path, value: Any, tmp_path: Path
    ) -> None:
        document = dict(self.receipt(make_run, source).document)
        run = LocalRun(RunFolders(tmp_path / "state" / "runs"), "train-1")
        assert code(Receipt(document), run=run, source=source) == ExitCode.OK
        for path in [(name,) for name in document] + list(changes(document)):
            other = json.loads(json.dumps(document))
            part = other
            for name in path[:-1]:
                part = part[name]
            if part[path[-1]] == value and type(part[path[-1]]) is type(value):
                continue
            part[path[-1]] = value
            try:
                found = code(Receipt(other), run=run, source=source)
            except GPUproofError:
                continue
            if path[0] in ("version", "created", "versions", "carbon"):
                continue  # of the file; another time, version and table
            assert found == (ExitCode.UNDECIDED if path[0] == "cost" else ExitCode.FAILED), path

    def test_a_receipt_without_a_digest_is_undecided(self, make_run: MakeRun, source: Path) -> None:
        receipt = Receipt(receipt_of(make_run(provenance=None)))
        assert code(receipt, source=source) == ExitCode.UNDECIDED
