"""Code and inputs on their way to S3, each stored once by the hash of its content."""
