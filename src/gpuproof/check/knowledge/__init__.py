"""Facts that several rules share: containers, handlers, launchers, ranks, script contract."""
