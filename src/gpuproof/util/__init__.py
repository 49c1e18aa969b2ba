"""Small tools that both halves need: process trees, values for people, atomic files, CSV tables, versions (host)."""
