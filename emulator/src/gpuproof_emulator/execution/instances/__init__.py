"""Simulated EC2 instances, on which real user data boots (`gpuproof emulator --boot-instances`).

`machine.py` starts one machine and `boot.py` is its inside: a network, disks and processes of its own, the metadata service
(`metadata_server.py`, with the content of `metadata.py`) and stubs of programs (`programs.py`). `supervisor.py` starts and ends the
machines of `RunInstances`, and keeps moto's states up to date. As root on Linux only: `requirements.py`.
"""
