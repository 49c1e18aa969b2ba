"""`gpuproof check --lsp`: the language server. `server.py` speaks the protocol, `documents.py` knows the open documents and
runs checks, `features.py` turns findings into diagnostics, quick fixes and hovers."""
