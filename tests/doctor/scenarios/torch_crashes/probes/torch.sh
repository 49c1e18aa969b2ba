printf '\036gpuproof {"kind": "step", "name": "import torch"}\n'
kill -SEGV $$
