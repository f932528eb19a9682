"""Paired campaigns in the console: what one will do, how its arms compare while it runs, and the decision."""
