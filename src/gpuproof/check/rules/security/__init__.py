"""Security: rules SE."""
