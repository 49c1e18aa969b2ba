"""Training loops: rules PF."""
