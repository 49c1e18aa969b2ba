"""MPI without ssh: the programs that start Open MPI's ranks on all hosts of a job.

mpirun needs a way to start its daemon on other hosts. Instead of ssh, which needs a server and keys there, it gets a program that sends
its command to the agent's program on that host (port 7791). That one accepts only messages with a code made with the job's key, reads
the command without a shell, and starts nothing but `orted` and `prted`.

`run.py` runs mpirun on the first host; `host.py` waits on each of the others and starts Open MPI's daemon there when
`main.py --mpi-connect`, which mpirun calls in place of ssh, requests it over `channel.py`. All read `config.py`; `command.py` is
mpirun's command line, and `daemon.py` reads the command that mpirun has for its daemons.
"""
