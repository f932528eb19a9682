"""What the screen says: pure functions from snapshots and a width to text. No widget, no file, no clock."""
