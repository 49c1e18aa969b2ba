"""The results of a job on AWS: what its hosts left in S3, the reports of their agents, and how they get to this machine."""
