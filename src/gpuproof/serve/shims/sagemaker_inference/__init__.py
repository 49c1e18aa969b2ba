"""The parts of AWS's `sagemaker-inference` that handlers import, for images without it. Reads no pickles.

It is at the end of `sys.path`, so that an installed toolkit takes precedence.
"""
