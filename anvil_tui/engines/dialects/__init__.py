"""What each engine's start-up log says: one module an engine, tables of shapes with the engine version beside each."""
