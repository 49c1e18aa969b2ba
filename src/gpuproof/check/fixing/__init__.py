"""Applying fixes: choose edits that do not touch each other, change the text, parse it again, write it at once."""
