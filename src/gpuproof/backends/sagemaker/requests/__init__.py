"""The requests of CreateTrainingJob and CreateProcessingJob, and the limits that botocore knows for them."""
