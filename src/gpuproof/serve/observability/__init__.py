"""Access log, metrics, traces and GPU monitoring of the server."""
