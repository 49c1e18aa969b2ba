import os

import sagemaker

SESSION = sagemaker.Session()
COMMON = dict(
    role=os.environ.get("EXECUTION_ROLE") or sagemaker.get_execution_role(),
    framework_version="2.5.1",
    py_version="py311",
    sagemaker_session=SESSION,
    max_run=4 * 3600,
    disable_profiler=True,
)


def uri(*parts):
    return "/".join(["s3:/", SESSION.default_bucket(), "helmet-detection", *parts])
