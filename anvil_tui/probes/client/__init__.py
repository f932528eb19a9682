"""The measuring HTTP client: transport, events, stream, figures, one exchange."""
