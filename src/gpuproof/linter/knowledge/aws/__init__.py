"""What AWS offers jobs: instance types, images, AMIs and lifecycle scripts, and how files refer to them."""
