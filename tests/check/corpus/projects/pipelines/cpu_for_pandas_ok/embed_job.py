import argparse

from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.sklearn.processing import SKLearnProcessor

STOPWORDS = "s3://nlp-resources/stopwords/de.txt"


def run(role, source, target):
    processor = SKLearnProcessor(
        framework_version="1.2-1",
        role=role,
        instance_type="ml.c5.4xlarge",
        instance_count=1,
        max_runtime_in_seconds=2 * 3600,
    )
    processor.run(
        code="tfidf.py",
        inputs=[
            ProcessingInput(source=source, destination="/opt/ml/processing/docs"),
            ProcessingInput(source=STOPWORDS, destination="/opt/ml/processing/stopwords"),
        ],
        outputs=[ProcessingOutput(source="/opt/ml/processing/vectors", destination=target)],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", required=True)
    parser.add_argument("--source", default="s3://news-archive/2023/")
    parser.add_argument("--target", default="s3://news-archive/vectors/")
    args = parser.parse_args()
    run(args.role, args.source, args.target)
