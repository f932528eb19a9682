"""`python -m anvil_tui.probes`: the probe child."""

from anvil_tui.probes.child import main

main()
