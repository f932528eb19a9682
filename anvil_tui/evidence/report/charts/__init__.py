"""Plots: pure functions from records to Vega-Lite dicts, or None where there is nothing to show."""
