"""What the doctor found, for people (`text`), programs (`json`, `junit`) and issues (`markdown`)."""
