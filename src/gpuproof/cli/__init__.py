"""The command line: one module per command, which imports only what that command needs."""
