"""Files that cannot be checked: rules E9."""
