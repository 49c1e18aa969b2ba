"""Reads programs of the AWS CDK in Python and TypeScript: constructs, and the resources and jobs that they create.

`python.py` and `typescript.py` read constructs with the same names and values; `constructs.py` says what a call of the
library returns, and `resources.py` and `jobs.py` turn constructs into what rules check.
"""
