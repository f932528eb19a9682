"""The measuring client. It runs in a process of its own and yields records; it never aggregates them."""
