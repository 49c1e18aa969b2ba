"""Schedules of EventBridge Scheduler that really run: their expressions, their targets, and the thread that runs those that are due."""
