"""Commands about what an account pays for."""
