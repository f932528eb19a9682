"""The typed records that cross rooms or reach disk: one file a noun, no behaviour but validation."""
