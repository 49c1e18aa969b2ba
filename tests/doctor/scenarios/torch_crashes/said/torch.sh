printf '\036tarmac {"kind": "step", "name": "import torch"}\n'
kill -SEGV $$
