"""`python -m anvil_tui` is `anvil-tui`."""

import sys

from anvil_tui.cli import main

sys.exit(main())
