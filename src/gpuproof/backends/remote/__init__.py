"""What runs on AWS have in common, whichever service runs them: files in the bucket, uploads, logs, results."""
