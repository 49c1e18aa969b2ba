"""Commands for endpoints and batch transform."""
