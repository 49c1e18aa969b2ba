"""The use cases that the command line, `gpuproof.*` in Python and notebooks share: one module for each.

A use case takes a typed request and a reporter, does everything in between, and returns its result. The command line turns
flags into requests and prints results; the functions of `gpuproof` do so with arguments.
"""
