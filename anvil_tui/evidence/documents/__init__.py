"""Result documents: plain data in the published shapes."""
