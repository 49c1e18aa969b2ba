"""Sessions of AWS Systems Manager: ports of an instance on this machine, and the machines for interactive work that use them."""
