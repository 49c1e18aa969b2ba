"""Endpoints: their status, the model servers in their containers, and invocations as SageMaker Runtime sends them."""
