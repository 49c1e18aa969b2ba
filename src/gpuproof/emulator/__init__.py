"""An AWS on loopback that really runs SageMaker jobs: `gpuproof emulator`, behind the extra `[emulator]`.

It owns SageMaker's operations and the endpoints' invocations, and hands S3, IAM, STS, CloudWatch Logs, EC2 and the rest
to moto. `application.py` is the way of one request, `operations/` what SageMaker is asked, `running/` how a job is
carried out, `journal.py` and `store.py` what survives a restart, `faults.py` what goes wrong on request.
"""
