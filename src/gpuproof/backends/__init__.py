"""Backends: where a job runs. A backend plans a job, submits it, and finds, follows and stops its runs.

`base` has the protocols, `registry` the table of backends. `local` is this machine, `sagemaker` is Amazon SageMaker;
`aws` is the AWS client that they share. Each backend package has the modules `backend`, `plan`, `submit`, `run`,
`store` and `follow`.
"""
