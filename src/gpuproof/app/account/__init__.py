"""What the commands of an account do: audit, cleanup, cost, setup."""
