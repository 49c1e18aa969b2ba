"""Loads and runs models: finds and imports the handler, calls its functions with their context, packs model archives."""
