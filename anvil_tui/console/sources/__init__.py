"""Threads that read what the console shows: each one noun, each publishing frozen values as messages."""
