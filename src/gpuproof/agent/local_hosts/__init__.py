"""Several hosts on one machine: a supervisor that starts an agent for each host and merges what they report.

Each host has its own folder below `hosts/` in the run's folder, with its own `/opt/ml` and, where this machine allows it,
its own network. The supervisor takes the place of the agent: it holds the run's lock, passes stop requests on, and writes
the state of the whole run. When it is killed, the kernel ends the agents, and their reapers end the scripts.

It exports nothing: the client imports single modules, and most runs have one host.
"""
