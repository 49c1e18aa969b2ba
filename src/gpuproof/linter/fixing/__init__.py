"""Applies fixes: selects edits that do not overlap, edits the text, parses the result, and replaces the file atomically."""
