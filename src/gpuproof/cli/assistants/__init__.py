"""GPUproof for coding assistants: `gpuproof mcp` serves its commands as tools, `gpuproof skill` prints a guide.

Tools, guide and `llms.txt` are generated from the commands' own parsers, so that they cannot differ from them.
"""
