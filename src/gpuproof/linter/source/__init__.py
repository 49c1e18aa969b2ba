"""Readers: from a file's bytes to the units of text that are checked, each with its map back to the file."""
