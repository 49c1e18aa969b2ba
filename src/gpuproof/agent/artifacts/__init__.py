"""What is left when the script ends: model and output archives, and extracting input archives safely."""
