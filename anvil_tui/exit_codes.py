"""What the process exit code says; the verbs and the console return nothing else."""

GOOD = 0
"""Done, and every check that ran was good."""

CHECK_FAILED = 1
"""Done, and a check failed: a rung missed, a bundle was tampered with, a lane did not come up."""

BAD_INPUT = 2
"""Bad input, or it cannot run here. Nothing was sent and nothing was lost."""

NO_TRUSTED_SIGNER = 3
"""A bundle is intact, but nobody whom this machine trusts signed it."""


def by_signal(number: int) -> int:
    """The shell's convention for a process that ended on signal `number`."""
    return 128 + number
