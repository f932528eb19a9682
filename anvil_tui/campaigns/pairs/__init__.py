"""Paired campaigns: their file, the order of loads, the swapping of lanes, the documents at the end."""
