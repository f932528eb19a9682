"""The command line as argparse sees it: every verb, its arguments, and where its function is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn, get_args

from anvil_tui import __version__
from anvil_tui.errors import CannotRun
from anvil_tui.records.gate import SEED_CHECKS, GateCheckName, ReasoningEvidence
from anvil_tui.records.lane import Effort, EngineName

_EXIT_CODES = (
    "exit codes: 0 done and good; 1 done, and a check failed; 2 bad input, or it cannot run; "
    "3 a bundle is intact but nobody trusted signed it; 128+n ended by signal n"
)


_SEAL = "seal and sign at the end, with an agent or an open key; what was stopped is left to resume"
_ACCEPT = "accept a functional difference that the file does not declare, and say why"


class _Parser(argparse.ArgumentParser):
    """argparse that says what is wrong in one line, as every other error is said."""

    def error(self, message: str) -> NoReturn:
        raise CannotRun(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Raises CannotRun for one that cannot be read."""
    parser = _Parser(
        prog="anvil-tui",
        description="Qualify model-serving lanes: start them, probe them with long contexts, and sign the evidence.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"anvil-tui {__version__}")
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")
    for target, default in ((parser, None), (common, argparse.SUPPRESS)):
        target.add_argument("--profiles", type=Path, metavar="DIR", default=default, help="folder of your own profiles")
        target.add_argument("--state", type=Path, metavar="DIR", default=default, help="folder of lanes and campaigns")
    parser.add_argument(
        "--read-only", action="store_true", help="open the console so that it only looks: nothing is started or written"
    )
    parser.set_defaults(verb=None, json=False)
    verbs = parser.add_subparsers(metavar="VERB", dest="verb")

    def verb(name: str, module: str, help: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=help, description=help, parents=[common], epilog=_EXIT_CODES)
        one.set_defaults(module=module, function=name.replace("-", "_"))
        return one

    verb("lanes", "lanes", "list the lanes and what they do now")
    check = verb("check", "lanes", "check lane profiles and machine files without running anything")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    up = verb("up", "lanes", "start a lane and watch it come up")
    up.add_argument("lane", metavar="LANE")
    down = verb("down", "lanes", "stop a lane and everything that it started")
    down.add_argument("lane", metavar="LANE")
    down.add_argument("--grace", type=_seconds, default=30.0, metavar="S", help="seconds to end by itself (default 30)")

    ladder = verb("ladder", "measuring", "probe a lane with prompts of exact length, one request a rung")
    _measuring(ladder)
    rungs = ladder.add_mutually_exclusive_group(required=True)
    rungs.add_argument("--targets", type=_targets, metavar="A,B,C", help="prompt lengths in tokens")
    rungs.add_argument("--geometric", type=_geometric, metavar="A:B[:F]", help="from A to B tokens, each F times (2)")
    rungs.add_argument("--bisect", type=_bisect, metavar="A[:T]", help="search the longest served, from A, to T (256)")
    ladder.add_argument("--repetitions", type=_positive, default=1, metavar="N", help="each target N times (default 1)")
    ladder.add_argument("--needle", type=_depths, default=(), metavar="D,E", help="hide a code at these depths, 0 to 1")
    ladder.add_argument("--post-gate", action="store_true", help="run the functional gate after the longest rung")

    gate = verb("gate", "measuring", "check what a lane can do: smoke, json, tools, streaming, responses")
    _measuring(gate, answers=False)
    gate.add_argument(
        "--checks", type=_checks, default=SEED_CHECKS, metavar="A,B", help=", ".join(get_args(GateCheckName))
    )
    gate.add_argument("--tool-batch", type=_positive, default=20, metavar="N", help="tool calls at once (default 20)")
    gate.add_argument("--visible-tokens", type=_positive, default=512, metavar="N", help="budget of an answer (512)")
    gate.add_argument("--reasoning-tokens", type=_natural, default=2048, metavar="N", help="room to reason (2048)")
    gate.add_argument("--reasoning", choices=get_args(ReasoningEvidence), default="any", help="evidence of it (any)")
    gate.add_argument("--reasoning-scope", choices=("gate", "check"), default="gate", help="who must show it (gate)")
    gate.add_argument("--needle-tokens", type=_positive, metavar="N", help="prompt length of the check needle")

    capacity = verb("capacity", "measuring", "measure runs of equal requests, so many at a time")
    _measuring(capacity)
    capacity.add_argument("--context", type=_positive, default=4096, metavar="N", help="prompt tokens (default 4096)")
    capacity.add_argument("--concurrency", type=_positive, default=1, metavar="N", help="at a time, to 256 (1)")
    capacity.add_argument("--requests", type=_positive, default=3, metavar="N", help="requests a run (default 3)")
    capacity.add_argument("--runs", type=_positive, default=3, metavar="N", help="runs that must pass (default 3)")
    capacity.add_argument("--extra-runs", type=_natural, default=2, metavar="N", help="replaced at most (2)")
    capacity.add_argument("--warmup", type=_natural, default=1, metavar="N", help="unscored requests before a run (1)")
    capacity.add_argument("--shared-prefix", type=_natural, default=0, metavar="N", help="prompts share N tokens (0)")
    capacity.add_argument("--fixed-output", action="store_true", help="every answer is exactly --max-tokens long")
    capacity.add_argument("--rate", type=_rate, metavar="R", help="requests start at R a second instead of closed loop")

    probe = verb("probe", "measuring", "measure one request to any OpenAI-compatible server")
    probe.add_argument("url", metavar="URL", help="its base URL, ending in /v1")
    probe.add_argument("--model", required=True, metavar="M")
    probe.add_argument("--prompt-tokens", type=_positive, metavar="N", help="size the prompt (a short question)")
    probe.add_argument("--max-tokens", type=_positive, default=256, metavar="N", help="tokens of the answer (256)")
    probe.add_argument("--reasoning-effort", choices=get_args(Effort), metavar="E", help=", ".join(get_args(Effort)))
    probe.add_argument("--api-key-env", metavar="NAME", help="the variable that holds the API key")
    probe.add_argument("--timeout", type=_seconds, default=900.0, metavar="S", help="seconds in all (default 900)")

    plans = verb("plans", "paired", "list the campaign files and whether each is valid here, or show what one will do")
    plans.add_argument("campaign", nargs="?", metavar="CAMPAIGN", help="show what this one will do")
    run = verb("run", "paired", "run a campaign file: its lanes in turn, measured the same way, then the documents")
    run.add_argument("campaign", metavar="CAMPAIGN", help="a name that `plans` lists, or a path")
    run.add_argument("--accept", type=_accepted, action="append", default=[], metavar="FIELD=WHY", help=_ACCEPT)
    run.add_argument("--seal", action="store_true", help=_SEAL)
    report = verb("report", "paired", "write the report of a campaign again")
    report.add_argument("campaign", metavar="ID")
    report.add_argument("--output", type=Path, metavar="FILE", help="write it there instead of into the campaign")

    verb("campaigns", "campaigns", "list the campaigns, the newest last")
    for name, help in (
        ("watch", "follow a campaign until its runner ends"),
        ("resume", "go on with a campaign whose runner died"),
    ):
        verb(name, "campaigns", help).add_argument("campaign", metavar="ID", help="an id, a part of one, or `last`")
    stop = verb("stop", "campaigns", "ask a campaign's runner to stop after its open request")
    stop.add_argument("campaign", metavar="ID")
    stop.add_argument("--now", action="store_true", help="cut the open request short")
    decide = verb("decide", "campaigns", "put your decision text into a campaign, before it is sealed")
    decide.add_argument("campaign", metavar="ID")
    decide.add_argument("--text", required=True, type=Path, metavar="FILE", help="the text; - reads standard input")

    verb("seal", "bundles", "seal a campaign: from then on nothing changes").add_argument("campaign", metavar="ID")
    sign = verb("sign", "bundles", "sign a sealed campaign with your key")
    sign.add_argument("campaign", metavar="ID")
    verify = verb("verify", "bundles", "check a bundle: its signature, its files, its journal")
    verify.add_argument("bundle", type=Path, metavar="BUNDLE")
    verify.add_argument("--published", action="store_true", help="a public copy: private files may be withheld")
    keys = verb("keys", "bundles", "show signing keys and trusted signers, or create your key")
    keys.add_argument("--create", metavar="PRINCIPAL", help="create your signing key under this name, you@lab say")
    keys.add_argument("--no-passphrase", action="store_true", help="create it without a passphrase, without asking")

    read_log = verb(
        "read-log", "logs", "read an engine's start-up log: KV tokens, memory, phases, the cause of a failure"
    )
    read_log.add_argument("file", type=Path, metavar="FILE")
    read_log.add_argument("--engine", choices=get_args(EngineName), help="(default: seen from the log)")
    read_log.add_argument("--lines", action="store_true", help="show the line behind each figure")

    compare = verb("compare", "conclusions", "compare two arms from their artifacts, campaign folders or bundles")
    for arm in ("baseline", "candidate"):
        compare.add_argument(f"--{arm}-name", required=True, metavar="NAME", help=f"display name of the {arm} arm")
        compare.add_argument(
            f"--{arm}", required=True, nargs="+", type=Path, metavar="FILE", help=f"files of the {arm}"
        )
    compare.add_argument(
        "--kind", choices=("paired", "change"), default="paired", help="shape of the document (paired)"
    )
    compare.add_argument("--at", type=_positive, metavar="N", help="context length that the next test asks about")
    explain = verb("explain-kv", "conclusions", "say what reported KV tokens mean, and what changed between starts")
    explain.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="logs, reports, /metrics, folders, bundles"
    )
    explain.add_argument("--at", type=_positive, metavar="N", help="predict at this context length in tokens")

    doctor = verb("doctor", "doctor", "check this machine: folders, keys, GPUs, terminal")
    doctor.add_argument("--hold", action="store_true", help="prove that a WSL distro stays up without a window")
    return parser


def _measuring(parser: argparse.ArgumentParser, *, answers: bool = True) -> None:
    """What every verb that measures a lane takes."""
    efforts = ", ".join(get_args(Effort))
    parser.add_argument("lane", metavar="LANE")
    if answers:
        parser.add_argument("--max-tokens", type=_positive, metavar="N", help="tokens of an answer (the profile's)")
        parser.add_argument("--margin", type=_natural, metavar="N", help="tokens left free (the profile's)")
    parser.add_argument("--reasoning-effort", choices=get_args(Effort), metavar="E", help=f"{efforts} (the profile's)")
    parser.add_argument("--up", action="store_true", help="start the lane where it is down")
    parser.add_argument("--seal", action="store_true", help=_SEAL)


def _targets(text: str) -> tuple[int, ...]:
    try:
        targets = tuple(int(part.replace("_", "")) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers with commas between, such as 2000,6000") from None
    for target in targets:
        if target < 1:
            raise argparse.ArgumentTypeError(f"a target of {target} tokens; each target is a whole number from 1")
    return targets


def _geometric(text: str) -> tuple[int, int, float]:
    first, _, rest = text.partition(":")
    last, _, factor = rest.partition(":")
    try:
        return _positive(first), _positive(last), float(factor or 2)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: first:last or first:last:factor, 2000:120000:2 say") from None


def _bisect(text: str) -> tuple[int, int]:
    first, _, tolerance = text.partition(":")
    return _positive(first), _positive(tolerance or "256")


def _depths(text: str) -> tuple[float, ...]:
    try:
        depths = tuple(float(part) for part in text.split(","))
    except ValueError:
        depths = (-1.0,)
    if not all(0 <= depth <= 1 for depth in depths):
        raise argparse.ArgumentTypeError(f"{text!r}: depths from 0 (start) to 1 (end), 0.1,0.5 say")
    return depths


def _checks(text: str) -> tuple[str, ...]:
    checks, known = tuple(text.split(",")), get_args(GateCheckName)
    for check in checks:
        if check not in known:
            raise argparse.ArgumentTypeError(f"no check {check!r}; there are {', '.join(known)}")
    return checks


def _accepted(text: str) -> tuple[str, str]:
    field, separator, why = text.partition("=")
    if not field or not separator or not why.strip():
        raise argparse.ArgumentTypeError(f'{text!r}: FIELD=WHY, recipe.kv_cache_dtype="…" say')
    return field, why.strip()


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: requests a second, above 0")
    return rate


def _positive(text: str) -> int:
    return _at_least(text, 1)


def _natural(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {least}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: seconds from 0 to 86400")
    return seconds
