"""Decisions about a run on AWS that SageMaker and EC2 make alike: its framework, its files and its inputs."""
