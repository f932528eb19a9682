"""Caveats by rule: each a small function from two arms to what a reader must know. `rules.py` lists them all."""
