"""Batch transform jobs: `gpuproof transform`.

`plan.py` decides everything and creates nothing, `job.py` executes the plan, follows the job, and deletes what it created.
"""
