#!/usr/bin/env python
import argparse
import os

import sagemaker
from sagemaker.pytorch import PyTorch

HERE = os.path.dirname(os.path.abspath(__file__))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", default=os.environ.get("SM_ROLE"))
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--instance-type", default="ml.g4dn.2xlarge")
    return parser.parse_args()


def main():
    args = parse()
    estimator = PyTorch(
        entry_point="training.py",
        source_dir=os.path.join(HERE, "..", "source"),
        role=args.role,
        framework_version="2.3",
        py_version="py311",
        instance_type=args.instance_type,
        instance_count=1,
        hyperparameters={"epochs": 6},
        metric_definitions=[{"Name": "val:f1", "Regex": "val_f1: [0-9.]+"}],
        output_path=f"s3://{args.bucket}/output",
        max_run=7200,
    )
    estimator.fit({"train": f"s3://{args.bucket}/tickets/train", "val": f"s3://{args.bucket}/tickets/val"})


if __name__ == "__main__":
    main()
