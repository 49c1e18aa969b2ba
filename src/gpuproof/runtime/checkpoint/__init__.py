"""`checkpoint()`: numbered folders, written atomically, resumed by all processes."""
