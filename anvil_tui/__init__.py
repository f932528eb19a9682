"""A terminal lab console that qualifies model-serving lanes and signs the evidence."""

from importlib.metadata import version

__version__ = version("anvil-tui")
