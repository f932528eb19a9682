"""Seal, sign and verify campaign folders; the operator's keys and whom this machine trusts."""
