"""The process that answers clients: routing, admission, dispatch to workers, multi-model API."""
