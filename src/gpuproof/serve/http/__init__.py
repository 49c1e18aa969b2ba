"""HTTP/1.1 server on asyncio, and the same application for ASGI servers."""
