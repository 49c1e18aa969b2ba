"""Executes a plan: API calls with roll-back, and the instance types that AWS refused."""
