"""Commands about models: `serve`, `package`, `bench-endpoint`."""
