"""Decisions made before anything is created: instance types, machine image, zones, quota, volume, profile, network."""
