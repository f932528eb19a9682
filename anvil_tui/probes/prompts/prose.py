"""Varied English text from a seed, in pieces whose token costs can be added up.

Repeated sentences would flatter speculative decoding and prefix caches, so sentences are drawn from a grammar with
millions of outcomes. The same seed gives the same text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ADJECTIVES = _words("""
quiet narrow ancient brisk careful distant early faded gentle heavy hollow humble idle late local lonely loose
modest northern open patient plain polished precise private proud rapid rare remote round rough royal rural sharp
silent simple slender slow solid southern steady steep stern strange strong sudden tall thick thin tidy tired usual
vacant warm western wide wooden young bright broad bitter bold brief calm cheap clever coarse cold common crooked
damp dark deep dense dry dull eager eastern empty exact fair familiar firm flat fragile fresh
""")
_NOUNS = _words("""
harbour miller bridge garden letter engine orchard valley captain market lantern river station carpenter window
village teacher kettle stone tower doctor ferry winter summer morning baker saddle compass journal hammer copper
barrel cabin canal ceiling chapel clerk cloth coast column corner cottage courtyard dealer desk drawer farmer field
fisher flour forest fountain gate glass goods guard guest hall harvest hill horse house inspector island kitchen
ladder lake lamp ledger library machine meadow mechanic merchant mill mirror mountain museum needle notice officer
owner painter palace paper passage pasture path pilot pipe porter printer quarry railway recipe road roof rope
sailor school servant shelter shepherd signal sister smith soldier spring stable storm street student surveyor
table tailor tenant theatre timber tool train traveller tunnel uncle wagon wall warden watch weaver wheel wood
worker yard bottle brother cargo carriage coin concert council dinner evening exhibit factory family festival
""")
_VERBS = _words("""
carried followed repaired counted crossed noticed painted measured delivered remembered opened watched borrowed
described examined found guarded ignored inspected joined kept lifted marked mended moved ordered passed placed
polished praised reached recorded replaced returned saw searched sketched sold studied surrounded visited weighed
admired bought built chose cleaned closed collected covered doubted emptied entered explored feared filled finished
""")
_ADVERBS = _words("""
slowly quickly carefully rarely often usually quietly later soon twice once again nearly almost barely gladly
firmly gently badly well early seldom together alone inside outside somewhere elsewhere
""")
_PREPOSITIONS = _words("beside behind above below near under beyond across from without against around before after")
_CONJUNCTIONS = _words("while because although until since whenever though unless")
_NAMES = _words("""
Alder Anton Berta Cedric Clara Dorothy Edgar Elise Frieda George Hanna Ida Jacob Karl Laura Martin Nora Oscar Paula
Ralph Rosa Samuel Thomas Ursula Victor Walter
""")
_OPENERS = _words("The A One Every Another That No Some")
_FILLERS = _words("and the of to in is it that for on with as at by this from or an be are was not but we he you")

FILLER = " the"
"""A word that is one token nearly everywhere, even in small vocabularies."""


def specimen() -> list[str]:
    """Pieces of a text that holds every piece of which `sentences` makes its text, each where it stands there."""
    words = (*_ADJECTIVES, *_NOUNS, *_VERBS, *_ADVERBS, *_PREPOSITIONS, *_CONJUNCTIONS, *_NAMES, *_OPENERS, *_FILLERS)
    spaced = [f" {word}" for word in (*words, "the", "a", "had", "and", "which", "years", "of")]
    numbers = [f" {number}" for number in range(2, 100)]
    begun = [piece for word in (*_OPENERS, *_NAMES) for piece in ("\n\n", word, " harbour", ",", " which", ".")]
    return [*dict.fromkeys([*spaced, *numbers]), ".", *begun]


def fillers() -> tuple[str, ...]:
    """Short common words, each a single token to nearly every tokenizer."""
    return tuple(f" {word}" for word in _FILLERS)


def sentences(seed: str) -> Iterator[list[str]]:
    """Endless sentences, each a list of pieces that `specimen` holds. A paragraph of a few begins without a blank."""
    rng = random.Random(seed)
    left = 0
    while True:
        pieces = _sentence(rng)
        if left == 0:
            left = rng.randint(4, 9)
            pieces = ["\n\n", pieces[0].lstrip(), *pieces[1:]]
        left -= 1
        yield pieces


def topics(seed: str) -> tuple[str, str]:
    """Two nouns to ask about."""
    first, second = random.Random(f"{seed}/topics").sample(_NOUNS, 2)
    return first, second


def _sentence(rng: random.Random) -> list[str]:
    pick = rng.choice
    shape = rng.randrange(5)
    subject = [pick(_NAMES)] if shape in (1, 3) else [pick(_OPENERS), pick(_ADJECTIVES), pick(_NOUNS)]
    verb = [pick(_VERBS), "the", pick(_ADJECTIVES), pick(_NOUNS)]
    if shape == 0:
        tail = [pick(_PREPOSITIONS), "the", pick(_NOUNS), pick(_ADVERBS)]
    elif shape == 1:
        tail = [pick(_CONJUNCTIONS), "the", pick(_NOUNS), "had", pick(_VERBS), "the", pick(_NOUNS)]
    elif shape == 2:
        tail = ["and", pick(_ADVERBS), pick(_VERBS), str(rng.randint(2, 99)), pick(_NOUNS), "of", pick(_NAMES)]
    elif shape == 3:
        tail = [",", "which", pick(_NAMES), "had", pick(_VERBS), str(rng.randint(2, 99)), "years", pick(_ADVERBS)]
    else:
        tail = [pick(_PREPOSITIONS), "a", pick(_ADJECTIVES), pick(_NOUNS), ",", pick(_CONJUNCTIONS), pick(_NAMES)]
        tail += [pick(_VERBS), "the", pick(_NOUNS)]
    return [word if word == "," else f" {word}" for word in (*subject, *verb, *tail)] + ["."]
