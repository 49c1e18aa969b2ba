"""Sums what GPUproof's runs, transform jobs, endpoints and notebooks cost, from what AWS keeps about them, next to Cost Explorer's bill."""
