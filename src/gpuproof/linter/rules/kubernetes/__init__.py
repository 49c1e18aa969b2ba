"""Kubernetes: rules KU."""
