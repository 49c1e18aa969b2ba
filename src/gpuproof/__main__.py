"""`python -m gpuproof`: the same as `gpuproof`."""

from gpuproof.cli.main import run

run()
