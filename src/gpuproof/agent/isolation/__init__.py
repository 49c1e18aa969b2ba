"""A private `/opt/ml` for the script, and the reaper process that ends everything the script leaves behind."""
