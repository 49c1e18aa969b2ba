"""The state of each GPU: ECC errors, Xid events, throttling, MIG, links, other processes (D6xx)."""
