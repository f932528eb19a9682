"""The campaign on disk: its folder, its journal, and what is read from them."""
