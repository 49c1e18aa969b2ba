"""Predicts memory, time and cost of a job on each GPU, from a trace of its script (`gpuproof.trace`).

The trace lists the operators of a step and every allocation and free. `memory/` replays these through a simulator of PyTorch's caching
allocator with the GPU's capacity, and adds the CUDA context; `scaling.py` makes the trace of another batch size from two traces, or of
a shard of FSDP. `time/` takes for each operator the longer of arithmetic and memory traffic, times the slowdown of its class on that
GPU; a step is the slowest of GPU with communication, launches and input pipeline. Both return limits of 80 %.

`data/coefficients.json` has everything that was fitted. To fit it again: `bench/plan/traces.py` traces the models of public tables,
`bench/plan/fit.py` fits the coefficients of time, `bench/plan_accuracy.py --write` those of memory and the limits, and measures errors
on models that were held out. The tables are not in the repository, and no test needs them.
"""
