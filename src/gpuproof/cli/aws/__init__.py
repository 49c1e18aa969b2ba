"""Commands about AWS: `gpus`, `catalogue`, `iam`, `emulator`."""
