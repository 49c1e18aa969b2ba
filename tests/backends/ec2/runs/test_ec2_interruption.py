"""What a spot interruption has lost, and what spot capacity saved in spite of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.launch_record import InterruptedRun, LaunchRecord
from gpuproof.backends.ec2.tracking.cost import attempts_of, bill_of
from gpuproof.cli.billing import spot_text

pytestmark = pytest.mark.slow


def launched(ec2: Any, **fields: Any) -> LaunchRecord:
    prefix = f"s3://{ec2.bucket}/gpuproof/checkpoints/train/one/"
    given = {"usd_per_hour": 0.36, "on_demand_usd_per_hour": 3.6, "checkpoints": prefix}
    return ec2.launch(spot=True, **{**given, **fields})


def interrupt(ec2: Any, launch: LaunchRecord, seconds: float = 1000.0) -> None:
    ec2.end(launch, "Stopped", seconds=seconds, secondary_status="Interrupted", interrupted=True)


def test_without_a_checkpoint_the_whole_run_is_lost(ec2: Any) -> None:
    launch = launched(ec2)
    interrupt(ec2, launch)
    record = ec2.look_at(launch).record
    assert record.document["lost_seconds"] == pytest.approx(record.billed_seconds)
    assert record.document["spot_saved_usd"] == pytest.approx(-record.cost)


def reported(ec2: Any, started: float, ended: float) -> LaunchRecord:
    """A run of which only the host's report is left, with times relative to now."""
    launch = launched(ec2, instances=0)
    now = time.time()
    document = {"status": "Stopped", "interrupted": True, "started": now + started, "ended": now + ended}
    ec2.report(launch, "end.json", document)
    return launch


def test_the_time_since_the_last_upload_of_a_checkpoint_is_lost(ec2: Any) -> None:
    launch = reported(ec2, -3000, 600)
    ec2.aws.put_object(ec2.bucket, "gpuproof/checkpoints/train/one/epoch-3.pt", b"weights")
    run = ec2.look_at(launch)
    lost = run.record.document["lost_seconds"]
    assert lost < 3000
    assert run.interruption is not None
    assert run.interruption.lost_seconds == lost


def test_checkpoints_of_an_earlier_run_save_nothing(ec2: Any) -> None:
    ec2.aws.put_object(ec2.bucket, "gpuproof/checkpoints/train/one/epoch-3.pt", b"weights")
    launch = reported(ec2, 5000, 5600)
    assert ec2.look_at(launch).record.document["lost_seconds"] == pytest.approx(600)


def test_what_was_found_once_is_kept(ec2: Any) -> None:
    launch = reported(ec2, -3000, 600)
    ec2.write(replace(launch, lost_seconds=42.0, continued_by="train-20260501-130000-cd34"))
    (record,) = (record for record in ec2.store().records() if record.id == launch.run_id)
    assert record.document["lost_seconds"] == 42.0
    assert record.document["continued_by"] == "train-20260501-130000-cd34"


def test_an_attempt_shows_what_all_attempts_lost_and_saved(ec2: Any) -> None:
    before = InterruptedRun("train-20260501-110000-ab12", 1000.0, 0.1, 3.6, 400.0)
    launch = launched(ec2, attempt=2, interrupted=(before,))
    ec2.end(launch, seconds=2000.0)
    record = ec2.look_at(launch).record
    document = record.document
    assert (document["attempt"], document["interruptions"], document["lost_seconds"]) == (2, 1, 400.0)
    assert document["all_attempts_usd"] == pytest.approx(0.1 + record.cost)
    # 600 of 1000 seconds count in the first attempt, and all of the second.
    assert document["spot_saved_usd"] == pytest.approx(0.6 - 0.1 + 9 * record.cost)
    text = spot_text(record)
    assert text is not None
    assert text.startswith("1 interruption, 6 min 40 s lost; 2 attempts cost $0.3")
    assert text.endswith("less than on demand")


def test_without_prices_only_the_lost_time_is_known(ec2: Any) -> None:
    before = InterruptedRun("train-20260501-110000-ab12", 1000.0, None, None, 400.0)
    launch = launched(ec2, attempt=2, interrupted=(before,))
    attempts = attempts_of(launch, bill_of(launch, 0.0, 100.0))
    assert (attempts.usd, attempts.saved_usd, attempts.lost_seconds) == (None, None, 400.0)


def test_a_launch_record_keeps_the_attempts_before() -> None:
    before = InterruptedRun("train-20260501-110000-ab12", 1000.0, 0.1, 3.6, None)
    record = LaunchRecord(
        run_id="a",
        job_name="a",
        kind="training",
        region="us-east-1",
        bucket="b",
        instance_type="g5.xlarge",
        instance_count=1,
        spot=True,
        image="ami-1",
        created=0.0,
        max_duration=1.0,
        attempt=2,
        interrupted=(before,),
    )
    assert LaunchRecord.parse(record.to_bytes()) == record
