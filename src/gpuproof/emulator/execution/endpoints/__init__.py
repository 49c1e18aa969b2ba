"""Endpoints: the model server in a container, and invocations as SageMaker Runtime sends them."""
