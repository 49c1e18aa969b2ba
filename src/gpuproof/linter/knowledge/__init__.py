"""Facts that several rules share: images, inference handlers, instance types, launchers, ranks, script contract."""
