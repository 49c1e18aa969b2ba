"""What a user's script may import: a GPU or a clear error, never a silent fall back to the CPU.

Standard library alone; works where neither framework is installed, and in any container, because the agent carries it.
"""
