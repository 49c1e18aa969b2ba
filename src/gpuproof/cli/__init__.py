"""The command line: one file a verb. Nothing is imported that the verb does not need."""
