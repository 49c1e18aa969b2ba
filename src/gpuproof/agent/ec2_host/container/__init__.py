"""A job in a container image: logs in to the registry, pulls the image with Docker, and runs the agent in a container."""
