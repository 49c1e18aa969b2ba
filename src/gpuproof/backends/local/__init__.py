"""The local backend: runs jobs on this machine, without Docker, an AWS account or a GPU.

A run is a folder and an agent process that outlives the terminal. Every other process reads the folder and watches its
files for changes.
"""
