"""The request that launches an instance."""
