"""What an account's GPUs did, for jobs that were not started by GPUproof: what was billed, its utilization in CloudWatch, and a verdict.

`collect` reads all regions and only reads; `usage` and `judge` are pure; `summary` has the sentence and the sums, `document` JSON and CSV.
"""
