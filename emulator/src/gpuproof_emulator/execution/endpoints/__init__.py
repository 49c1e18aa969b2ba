"""Endpoints: their status, the model servers in their containers, and invocations as SageMaker Runtime sends them.

`registry.py` and `deployment.py` have the variants in service. What they start differs by kind (`serverless.py`, `multi_model.py`); what is
done with an invocation is in `router.py` (metrics, data capture) and `async_queue.py`. Metrics are sent when metrics are read.
"""
