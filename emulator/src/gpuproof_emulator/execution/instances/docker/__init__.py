"""A `docker` program for simulated instances: the subset of Docker's CLI with which a host runs image jobs.

An image is an interpreter of this machine. A container really runs: in a mount namespace of its own, with the mounts, variables
and limits that it is given. Whatever the program does not implement, it rejects.
"""
