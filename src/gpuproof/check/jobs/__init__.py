"""The job graph: every file that describes a job gives `JobDefinition`s, and each is linked to its script."""
