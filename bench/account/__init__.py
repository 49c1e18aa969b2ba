"""Times commands that read a whole account: an emulated account in 20 regions, in a process of its own."""
