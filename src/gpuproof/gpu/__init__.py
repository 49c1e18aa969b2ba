"""Looking at this machine's GPUs and processes, without ever raising in the caller's face.

Every reading that cannot be had is `None`; why it cannot be had is said once, in words.
"""
