from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.watch import Ended, Reason, Watch, read_started
from support.aws_loopback import MetadataService

TAG = "meta-data/tags/instance/gpuproof:stop"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watch_of(service: MetadataService, tmp_path: Path, clock: Clock, parameters: HostParameters) -> Watch:
    metadata = Metadata(urlsplit(service.url).netloc)
    return Watch(parameters, metadata, tmp_path / "alive", clock)


def test_every_look_is_a_sign_of_life_for_the_watchdog(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    with MetadataService({}) as service:
        watch = watch_of(service, tmp_path, clock, parameters(silence=40.0))
        watch.look()
        clock.now = 109.0
        watch.look()
        assert (tmp_path / "alive").read_text() == "100\n"
        clock.now = 110.5
        watch.look()
        assert (tmp_path / "alive").read_text() == "110\n"
        assert watch.event is None


def test_the_time_counts_from_the_start_of_user_data(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    """Downloading this program may have taken minutes, and the watchdog powers the instance off at its own time."""
    (tmp_path / "started").write_text("40")
    with MetadataService({}) as service:
        metadata = Metadata(urlsplit(service.url).netloc)
        started = read_started(tmp_path)
        watch = Watch(parameters(max_duration=1000.0), metadata, tmp_path / "alive", clock, started)
        watch.raises = False
        clock.now = 40.0 + 899.0
        watch.look()
        assert watch.event is None
        clock.now += 60.0
        watch.look()
        assert watch.event is not None
        assert watch.event.reason is Reason.TIME
    assert read_started(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("path", "content", "reason", "secondary"),
    [
        (TAG, "1764547200", Reason.STOP, "Stopped"),
        (
            "meta-data/spot/instance-action",
            '{"action": "terminate", "time": "x"}',
            Reason.INTERRUPTED,
            "Interrupted",
        ),
    ],
)
def test_tags_and_notices_end_a_job(
    path: str,
    content: str,
    reason: Reason,
    secondary: str,
    parameters: Callable[..., HostParameters],
    tmp_path: Path,
    clock: Clock,
) -> None:
    with MetadataService({path: content}) as service:
        watch = watch_of(service, tmp_path, clock, parameters())
        with pytest.raises(Ended) as ended:
            watch.wait(0.0)
    assert (ended.value.event.reason, ended.value.event.secondary_status) == (reason, secondary)


REBALANCE = {"meta-data/events/recommendations/rebalance": '{"noticeTime": "2026-05-01T12:00:00Z"}'}


def test_a_rebalance_recommendation_ends_no_job(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    with MetadataService(REBALANCE) as service:
        watch = watch_of(service, tmp_path, clock, parameters())
        assert watch.risk is None
        for _ in range(2):
            watch.look()
            clock.now += 60
        assert (watch.event, watch.risk) == (None, "2026-05-01T12:00:00Z")


def test_a_notice_after_a_rebalance_recommendation_ends_the_job(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    notice = {"meta-data/spot/instance-action": '{"action": "terminate", "time": "x"}'}
    with MetadataService({**REBALANCE, **notice}) as service:
        watch = watch_of(service, tmp_path, clock, parameters())
        with pytest.raises(Ended, match="takes the spot instance back"):
            watch.look()


def test_with_rebalance_stop_a_recommendation_ends_the_job(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    with MetadataService(REBALANCE) as service:
        watch = watch_of(service, tmp_path, clock, parameters(rebalance="stop"))
        with pytest.raises(Ended) as ended:
            watch.look()
    assert (ended.value.event.reason, ended.value.event.in_a_hurry) == (Reason.INTERRUPTED, True)


def test_a_job_ends_before_its_time_is_over_so_that_uploads_remain_possible(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    with MetadataService({}) as service:
        watch = watch_of(service, tmp_path, clock, parameters(max_duration=1000.0))
        watch.raises = False
        clock.now += 899
        watch.look()
        assert watch.event is None
        clock.now += 6
        watch.look()
    assert watch.event is not None
    assert (watch.event.reason, watch.event.in_a_hurry) == (Reason.TIME, False)


def test_a_metadata_service_that_cannot_be_reached_ends_nothing(
    parameters: Callable[..., HostParameters], tmp_path: Path, clock: Clock
) -> None:
    with MetadataService({TAG: "1"}) as service:
        address = urlsplit(service.url).netloc
    watch = Watch(parameters(), Metadata(address), tmp_path / "alive", clock)
    watch.look()
    assert watch.event is None


def test_an_expired_token_is_replaced() -> None:
    with MetadataService({TAG: "1"}) as service:
        metadata = Metadata(urlsplit(service.url).netloc)
        assert metadata.get(TAG) == "1"
        metadata._token = "expired"
        assert metadata.get(TAG) == "1"
        assert metadata.get_object(TAG) is None
