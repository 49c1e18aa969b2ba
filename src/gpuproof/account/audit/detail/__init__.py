"""One job or endpoint of an account in detail, for `gpuproof audit JOB`.

`find` looks for it in all regions, `log` reads the ends of its logs, `source` finds and fetches its code from S3 and
`smaller` decides, without requests, which cheaper instance would do. Everything only reads.
"""
