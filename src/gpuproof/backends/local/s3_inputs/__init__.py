"""S3 inputs of local runs: which objects, where they are cached, how they are downloaded."""
