import argparse
from pathlib import Path

import yaml
from sagemaker.pytorch import PyTorch

ROOT = Path(__file__).parent


def make(config, name):
    job = config["jobs"][name]
    return PyTorch(
        entry_point="train.py",
        source_dir=str(ROOT / "src"),
        role=config["role"],
        base_job_name=f"ranker-{name}",
        framework_version="2.3.0",
        py_version="py311",
        instance_count=1,
        instance_type=job["instance_type"],
        hyperparameters={"epochs": job["epochs"]},
        max_run=6 * 3600,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["small", "large"])
    args = parser.parse_args()
    config = yaml.safe_load((ROOT / "jobs.yaml").read_text())
    make(config, args.name).fit({"clicks": "s3://ranker/clicks/"})
