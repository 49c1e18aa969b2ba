"""Instance types: rules IN."""
