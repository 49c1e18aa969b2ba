from __future__ import annotations

from pathlib import Path

from gpuproof.agent.ranks.rank_file import describe_rank, write_rank_file
from gpuproof.agent.ranks.report import RankReport, read_reports


def report(rank: int, attempt: int = 0) -> RankReport:
    return RankReport("algo-1", rank, rank, 100 + rank, attempt, 10.0)


def test_the_variables_of_torchrun_and_of_mpi_name_the_rank() -> None:
    torchrun = describe_rank(
        1.0, {"RANK": "5", "LOCAL_RANK": "1", "SM_CURRENT_HOST": "algo-3", "TORCHELASTIC_RESTART_COUNT": "2"}
    )
    assert [torchrun[name] for name in ("host", "rank", "local_rank", "attempt")] == ["algo-3", 5, 1, 2]
    mpi = describe_rank(
        1.0,
        {
            "OMPI_COMM_WORLD_RANK": "7",
            "OMPI_COMM_WORLD_LOCAL_RANK": "3",
            "SM_CURRENT_HOST": "algo-1",
            "GPUPROOF_HOST": "algo-2",
        },
    )
    assert [mpi[name] for name in ("host", "rank", "local_rank", "attempt")] == ["algo-2", 7, 3, 0]


def test_what_a_rank_writes_is_what_is_read(tmp_path: Path) -> None:
    write_rank_file(tmp_path / "new", describe_rank(1.5, {"RANK": "1", "SM_CURRENT_HOST": 'a"\\\n'}))
    failed = report(0).failing(12.5, "ValueError", "é \udc80", "Traceback", 1)
    failed.write(tmp_path / "new")
    assert read_reports(tmp_path / "new")[0] == failed
    assert read_reports(tmp_path / "new")[1].host == 'a"\\\n'
    assert [path.name for path in sorted((tmp_path / "new").iterdir())] == ["rank-0.json", "rank-1.json"]


def test_ends_that_only_the_launcher_notices_are_ordered_before_what_followed_from_them() -> None:
    lost = report(0).failing(12.0, "RuntimeError", "Connection closed by peer", "Traceback", 1)
    assert report(1).failing(12.2, "SIGKILL", code=-9).order < lost.order
    assert report(1).failing(12.2, "SystemExit", "7", code=7).order < lost.order  # os._exit
    assert report(1).failing(12.2, "SIGTERM", code=-15).order > lost.order


def test_no_folder_and_broken_files_are_no_failure(tmp_path: Path) -> None:
    assert read_reports(tmp_path / "none") == []
    (tmp_path / "rank-0.json").write_text("{")
    (tmp_path / "rank-1.json").write_text('{"unknown": 1}')
    assert read_reports(tmp_path) == []
