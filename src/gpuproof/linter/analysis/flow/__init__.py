"""Where values and calls lead: the project's own function that a call runs, and the places that receive a value."""
