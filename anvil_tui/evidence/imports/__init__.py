"""Foreign files turned into our records, one file a format.

A definition that differs from ours is named in `MeasuredRun.definitions`; two arms are compared on a metric only where
both mean the same by it. What a format does not tell stays null.
"""
