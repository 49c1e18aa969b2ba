"""Facts that several rules share: AWS's instances and images, the contract with scripts, distribution, the frameworks."""
