"""Uploads code and inputs to S3; every file is stored once under the hash of its content."""
