"""What one job certainly runs, and which findings stop it before it starts."""
