"""The control path between the agents of a job with several hosts.

The agent of the first host (`coordinator.py`) listens on TCP port 7790, those of the others (`member.py`) connect to it and exchange
lines of JSON. Both sides prove by an HMAC that they have the job's random key; other connections are closed. `coordinator_state.py`
and `member_state.py` decide, and touch neither sockets nor clocks. A thread keeps the contact, whatever the runner does meanwhile.

- Start: all hosts or none. A host is ready when its requirements are installed; hosts that do not report in time are named.
- First failure: the coordinator asks all hosts, waits a second (three if only lost connections were reported) and decides: an error
  of a process itself precedes lost connections, SIGABRT and SIGTERM, then the time counts (`ranks/host_failure.py`).
- End: a host that has completed waits for the others, because it may fail with them. Heartbeats every 5 s detect lost machines within
  a minute; a closed connection detects a lost agent at once.
- Stall: hosts send how long they have been without progress. If none has any, all print the stacks of their processes before they
  are stopped (`agent/stall/`).
"""
