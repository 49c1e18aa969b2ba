"""What the commands of endpoints do: deploy, predict, delete, and batch transform; and where a model comes from."""
