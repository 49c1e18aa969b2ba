"""Renders a report for people (`text`), programs (`json_junit`) and GitHub issues (`markdown`)."""
