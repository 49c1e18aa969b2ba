"""A script for MPI whose last rank fails, while the others wait for it."""

from mpi4py import MPI

world = MPI.COMM_WORLD
if world.rank == world.size - 1:
    raise ValueError("no data")
world.barrier()
