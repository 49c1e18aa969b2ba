"""Traces: what a script would do on a GPU, recorded without one.

`document.py` is the format, which `gpuproof.planning` reads. The rest runs in a child process, in the interpreter of the script: it has
the standard library and the script's own framework only.
"""
