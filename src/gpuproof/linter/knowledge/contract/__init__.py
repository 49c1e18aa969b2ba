"""The contract between SageMaker and scripts: command line, channels, folders that are kept, handlers, and what is saved."""
