"""`gpuproof plan`: what a script needs on each GPU, how long it takes and what it costs."""
