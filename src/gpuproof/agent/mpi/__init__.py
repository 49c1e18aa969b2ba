"""MPI without ssh: the programs that start Open MPI's ranks on all hosts of a job.

`run.py` runs mpirun on the first host; `host.py` waits on each of the others and starts Open MPI's daemon there when
`main.py --mpi-connect`, which mpirun calls in place of ssh, requests it over `channel.py`. All read `config.py`; `command.py` is mpirun's
command line, and `daemon.py` reads the one that mpirun has for its daemons.
"""
