"""The live screen, and the questions and answers that open over it."""
