"""How much GPU memory a trace needs, and whether it fits."""
