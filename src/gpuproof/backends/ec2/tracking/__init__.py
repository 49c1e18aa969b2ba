"""The state of a run on EC2: its launch record, its instances and what its hosts have written to S3."""
