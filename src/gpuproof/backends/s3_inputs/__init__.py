"""S3 inputs of local runs: which objects they are, where they are cached, and how they are downloaded."""
