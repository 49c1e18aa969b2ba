"""python launch.py [--local]: in a container on this machine, or on SageMaker."""
import argparse
import os

from sagemaker.local import LocalSession
from sagemaker.pytorch import PyTorch
from sagemaker.session import Session

parser = argparse.ArgumentParser()
parser.add_argument("--local", action="store_true")
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()

if args.local:
    session, instance_type, data = LocalSession(), "local_gpu", "file://" + os.path.abspath("sample")
    session.config = {"local": {"local_code": True}}
else:
    session, instance_type, data = Session(), "ml.g5.xlarge", "s3://wind-turbines/vibration/"

PyTorch(
    entry_point="train.py",
    source_dir="src",
    role=os.environ["SAGEMAKER_ROLE"],
    instance_count=1,
    instance_type=instance_type,
    framework_version="2.3",
    py_version="py311",
    sagemaker_session=session,
    hyperparameters={"epochs": args.epochs},
    max_run=3600,
).fit({"vibration": data})
