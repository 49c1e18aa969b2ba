"""`gpuproof doctor --full`: measured rates of each GPU against its data sheet and PCIe link (D8xx)."""
