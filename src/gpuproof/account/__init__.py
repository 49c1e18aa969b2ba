"""What an account pays for: `cleanup` finds and deletes what costs GPU money now, `cost` sums what GPUproof's runs cost."""
