"""Cost: rules CO."""
