"""Watches what already runs: `gpuproof watch --pid` (`attach.py`), `gpuproof watch --for` (`machine.py`), and the state of the GPUs."""
