"""Executions of SageMaker pipelines: the definition's references, and the thread that runs the steps."""
