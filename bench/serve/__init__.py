"""Parts of `bench/serve.py`: the peers and how each starts, the model that all of them serve, and the report.

`gpu_*.py` and `bare_loop.py` are `bench/serve_gpu.py`'s, which shares generators, stacks and measurement with it.

`handlers/` is copied into a folder of its own and runs inside the peers' virtual environments.
"""
