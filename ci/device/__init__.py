"""The emulated spyre device and the device test base that PyTorch loads."""
