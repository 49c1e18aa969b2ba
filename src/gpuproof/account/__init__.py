"""What an account pays for and has.

`cleanup` finds and deletes the GPU resources that are billed now, `audit` shows what GPUs did, `cost` sums what runs cost, `setup` prepares it.
"""
