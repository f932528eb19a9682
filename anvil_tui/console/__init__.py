"""What the operator sees: a screen over campaign folders and lane folders. It reads, begins campaigns, and asks."""
