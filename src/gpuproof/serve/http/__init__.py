"""HTTP/1.1 server on asyncio, and an adapter that runs the same application on ASGI servers."""
