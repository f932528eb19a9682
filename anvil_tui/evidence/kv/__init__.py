"""What an engine says of its KV cache, explained."""
