"""The state of a run on EC2, from its launch record, DescribeInstances, and what its hosts have written to S3 (`boot.json`, `end.json`).

The states of runs that have ended are cached.
"""
