"""What an account pays for and has: `cleanup` finds and deletes the GPU resources that are billed now, `cost` sums what runs cost, `setup` prepares it."""
