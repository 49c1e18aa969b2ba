"""Public test suites, run against GPUproof from checkouts outside of the project: `make conformance`.

The folder `GPUPROOF_CONFORMANCE` holds the checkouts, by the names of their repositories; a suite whose checkout is missing is
skipped. Counts and every failure with its reason are written to `bench/results/conformance.md`; reasons are kept in
`reasons.csv`.
"""
