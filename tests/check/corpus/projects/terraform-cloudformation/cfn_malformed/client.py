"""Sends a page to the OCR endpoint."""

import argparse
import json
from pathlib import Path

import boto3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("--endpoint", default="ocr")
    args = parser.parse_args()
    runtime = boto3.client("sagemaker-runtime", region_name="us-east-1")
    response = runtime.invoke_endpoint(
        EndpointName=args.endpoint, ContentType="image/png", Body=args.page.read_bytes()
    )
    for line in json.load(response["Body"])["lines"]:
        print(line["text"])


if __name__ == "__main__":
    main()
