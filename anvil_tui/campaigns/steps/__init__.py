"""What is done on one load: brought up, visited, measured, closed."""
