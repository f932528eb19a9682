"""Arms: what any set of artifacts tells of one side of a comparison, in one form."""
