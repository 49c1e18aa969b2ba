"""Docker: rules DK."""
