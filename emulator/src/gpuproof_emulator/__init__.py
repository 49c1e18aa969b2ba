"""A local AWS endpoint that runs SageMaker jobs for real: `gpuproof emulator`, of the distribution gpuproof-emulator.

It implements SageMaker's operations and endpoint invocations, and forwards S3, IAM, STS, CloudWatch Logs, EC2 and others to
moto. `wsgi.py` handles a request, `operations/` implements SageMaker's API, `execution/` runs jobs and endpoints, `services/`
adds what moto lacks, `store.py` and `moto_journal.py` keep state across restarts, `faults/` injects failures.
"""
