"""What handlers import of AWS's `sagemaker-inference`, for images that have it not. Written anew; no pickle is read.

It lies at the end of `sys.path`, so an installed toolkit goes first.
"""
