"""Endpoints of SageMaker. `invocation/` sends requests to one (`gpuproof predict`)."""
