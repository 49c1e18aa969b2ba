"""`gpuproof doctor --full`: what each GPU really does a second (`rates`), against its data sheet and link (`sheet`)."""
