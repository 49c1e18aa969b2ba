"""What the emulator adds to moto: log filters, quotas, prices, tags, bucket policies."""
