"""How findings are shown: text for people; json, sarif, github and junit for programs."""
