"""From a model's folder to a model that answers: finding the handler, importing it, its functions and their context."""
