"""Where the agent runs: in a local run folder or inside a SageMaker container."""
