"""Prompts of an exact length in tokens."""
