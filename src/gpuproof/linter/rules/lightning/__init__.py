"""Lightning: rules LT."""
