"""Tools for users' test suites: a pytest plugin with an emulated AWS account, `gpuproof.testing.emulator`."""
