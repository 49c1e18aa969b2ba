"""Backends: where a job runs. A backend plans a job, submits it, and finds, follows and stops its runs.

`base` has the protocols, `registry` the table of backends. `local` is this machine, `sagemaker` is Amazon SageMaker, `ec2` is Amazon EC2,
`remote` is what those two share, `cheapest` chooses between them, and `aws` makes every AWS call. Each backend package has the modules
`backend`, `plan`, `submit`, `run`, `store` and `follow`. `transaction.py` executes the steps of whatever is created, and undoes them.

Only `agent/paths.py` knows the names in a run's folder, only `remote/s3_layout.py` those in the bucket. On SageMaker, the job's
description and tags are the record of a run.
"""
