"""Framework versions and images: rules FW."""
