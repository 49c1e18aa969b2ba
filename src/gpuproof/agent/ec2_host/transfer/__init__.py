"""Everything that passes between a host and AWS: inputs, code, checkpoints, results, reports and the log, through the AWS CLI."""
