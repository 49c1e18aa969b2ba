from __future__ import annotations

import pytest

from gpuproof.runtime.ranks import local_rank, rank_and_size

MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize(
    ("variables", "ranks", "local"),
    [
        ({}, None, None),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, (3, 4), 1),
        (MPI, (3, 4), 1),
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}, (3, 4), 1),
        # A script may set them itself, with one process per host.
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2), None),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, (0, 1), 0),
        ({"RANK": "3"}, None, None),
    ],
)
def test_the_variables_of_torchrun_and_of_mpi_name_this_process(
    variables: dict[str, str], ranks: tuple[int, int] | None, local: int | None
) -> None:
    assert rank_and_size(variables) == ranks
    assert local_rank(variables) == local
