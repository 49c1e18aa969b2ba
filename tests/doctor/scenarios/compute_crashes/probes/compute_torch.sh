printf '\036gpuproof {"kind": "step", "name": "matmul in float32 on GPU 0"}\n'
kill -ABRT $$
