"""What a runner works with: its session, its interrupts, its children, the GPUs it watches."""
