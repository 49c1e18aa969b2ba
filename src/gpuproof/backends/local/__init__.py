"""This machine as a place: no Docker, no account, no GPU needed.

A run is a folder; an agent, which outlives the terminal, carries it out; everybody else reads the folder and waits for
its files to change.
"""
