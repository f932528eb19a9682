"""The parts of the page: pure functions from what the folder holds to markup."""
