"""A terminal lab console that qualifies model-serving lanes and signs the evidence."""

__version__ = "0.1.0"
