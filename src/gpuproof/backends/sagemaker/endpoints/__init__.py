"""Endpoints: `gpuproof deploy`, `gpuproof delete` and `gpuproof predict`.

`planner.py` decides everything and creates nothing; `plan.py` has the AWS calls as data; `submit.py` executes them, waits, asks
the server whether the model is on the GPU, and undoes everything after an error. `hook/` are the files that start GPUproof's
server inside AWS's images. `delete.py` removes what belongs to one endpoint.
`invocation/` sends requests (`gpuproof predict`).
"""
