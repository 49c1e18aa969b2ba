"""Layer 7: the machine against its instance type, the AWS account and scheduled EC2 events (D7xx)."""
