echo "ModuleNotFoundError: No module named 'encodings'" >&2
exit 1
