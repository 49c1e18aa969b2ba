"""What an account pays for and has: `cleanup` finds and deletes what costs GPU money now, `cost` sums what runs cost, `setup` prepares it."""
