"""The 29 groups of public bug reports about verifying, each with the tests that hold it here or the reason for none."""

from __future__ import annotations

import importlib

import pytest

VERIFY, SEAL, SSHSIG, KEYS, SUMS, STOCK = (
    f"tests.unit.bundles.test_{name}" for name in ("verify", "seal", "sshsig", "keys", "sums", "stock_tools")
)

REPORTS: dict[int, tuple[str, list[tuple[str, str]] | str]] = {
    1: ("a signed list names ../secret.txt", [(VERIFY, "test_a_signed_bad_path_is_refused_before_anything_is_opened")]),
    2: ("../bundle-secret counts as inside", [(VERIFY, "test_a_signed_bad_path_is_refused_before_anything_is_opened")]),
    3: ("an empty folder verifies", [(VERIFY, "test_a_signed_empty_bundle_is_refused")]),
    4: ("unsigned extra files ride along", [(VERIFY, "test_tampering_is_named_and_fails")]),
    5: ("the optional integrity file is removed", [
        (VERIFY, "test_without_a_signature_it_is_intact_and_nobody_vouches"),
        (VERIFY, "test_a_folder_without_a_list_is_no_bundle"),
    ]),
    6: ("exit 0 although nothing was verified", [
        (VERIFY, "test_without_a_signature_it_is_intact_and_nobody_vouches"),
        (VERIFY, "test_with_an_empty_trust_store_it_is_intact_and_the_signer_unknown"),
    ]),
    7: ("verified OK for another type or an unparsable payload", [
        (VERIFY, "test_a_signed_manifest_that_lies_is_refused"),
    ]),
    8: ("dir/../foo slips past a rule", [(SUMS, "test_bad_paths")]),
    9: ("one key satisfies a threshold of two", [(VERIFY, "test_one_key_twice_is_one_signer")]),
    10: ("one good signature hides a bad one", [(VERIFY, "test_tampering_is_named_and_fails")]),
    11: ("any time stamp is accepted", "time stamps are not part of a bundle; a .tsr file is UNLISTED_FILE"),
    12: ("a second, malleable signature", [(SSHSIG, "test_forms")]),
    13: ("a FIDO signature without a touch", [(SSHSIG, "test_fido_keys_need_a_touch")]),
    14: ("a pattern makes anyone the operator", [
        (KEYS, "test_lines_outside_the_subset_are_refused_by_number"),
        (VERIFY, "test_with_an_empty_trust_store_it_is_intact_and_the_signer_unknown"),
    ]),
    15: ("the signature chooses md5", [(SSHSIG, "test_forms")]),
    16: ("unsigned text beside signed text", [(SSHSIG, "test_forms")]),
    17: ("CR in the signature file refuses a good one", [
        (VERIFY, "test_a_crlf_signature_file_is_read"),
        (SSHSIG, "test_forms"),
    ]),
    18: ("CRLF edits are invisible", [
        (VERIFY, "test_tampering_is_named_and_fails"),
        (SUMS, "test_every_edit_is_refused_or_exact"),
    ]),
    19: ("a subset check passes though the file is absent", [
        (VERIFY, "test_a_published_copy_withholds_private_files_and_nothing_else"),
    ]),
    20: ("two names become one file", [
        (VERIFY, "test_a_signed_odd_list_is_refused"),
        (SEAL, "test_nothing_is_sealed_that_would_not_verify"),
    ]),
    21: ("unpacking writes outside its target", "bundles are folders here; nothing unpacks an archive"),
    22: ("A is verified, B is used", [
        (VERIFY, "test_what_is_parsed_is_what_was_hashed"),
        (VERIFY, "test_a_file_that_is_written_while_it_is_read_is_refused"),
    ]),
    23: ("the mode of one file, the key of another", [(KEYS, "test_the_mode_is_read_from_the_file_that_is_read")]),
    24: ("a flag overrides the signed policy", "verify has no flag that allows links or extra files"),
    25: ("honest documents fail after re-serialising", "only raw bytes are hashed; nothing is serialised again"),
    26: ("a torn line eats the next, a cut tail is sealed", [
        (VERIFY, "test_a_signed_journal_that_was_cut_is_refused"),
        (SEAL, "test_nothing_is_sealed_that_would_not_verify"),
        (SEAL, "test_a_campaign_whose_runner_never_ended_is_interrupted"),
    ]),
    27: ("the manifest makes the reader open any file", [(VERIFY, "test_a_signed_manifest_that_lies_is_refused")]),
    28: ("a file system without modes or RENAME_NOREPLACE", [(KEYS, "test_a_file_system_without_modes_is_refused")]),
    29: ("forged inclusion proofs of a tree", "the list is flat"),
}  # fmt: skip


def test_every_group_is_here() -> None:
    assert list(REPORTS) == list(range(1, 30))


@pytest.mark.parametrize("number", REPORTS)
def test_the_tests_of_a_group_exist(number: int) -> None:
    _, held_by = REPORTS[number]
    if isinstance(held_by, str):
        assert held_by
        return
    for module, name in held_by:
        assert callable(getattr(importlib.import_module(module), name))
