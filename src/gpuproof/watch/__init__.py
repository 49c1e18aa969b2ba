"""Watches a program that GPUproof did not start as a job, and judges what its GPUs did.

A session (`session.py`) samples some process trees and returns a verdict; a report (`report.py`) is the verdict with the facts of the
program and the machine. The other modules are ways to a session: a command, a process that runs already, or a monitor process that
several programs share.
"""
