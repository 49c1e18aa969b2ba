"""The control path between the agents of a job with several hosts.

The agent of the first host (`coordinator.py`) listens, those of the others (`member.py`) connect to it: they start their
scripts together, and end them together when one fails. What is decided is in `coordinator_state.py` and `member_state.py`,
which touch neither sockets nor clocks.
"""
