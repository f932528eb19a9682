"""What the live screen is made of: each widget shows one snapshot and holds nothing that could not be read again."""
