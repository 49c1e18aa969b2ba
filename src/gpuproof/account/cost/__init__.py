"""Sums what GPUproof's runs and endpoints cost, from their records, next to the bill of Cost Explorer."""
