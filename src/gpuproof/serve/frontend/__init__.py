"""The process that serves clients over HTTP: routing, admission, health, metrics and the multi-model API."""
