"""SageMaker's contract with scripts and handlers: rules SM."""
