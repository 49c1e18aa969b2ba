"""What an account pays for: `cleanup` finds and deletes the GPU resources that are billed now, `cost` sums what GPUproof's runs cost."""
