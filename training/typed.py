"""What is typed after train.py or eval.py: KEY=VALUE and options, or else what was meant."""

import argparse
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from bload.errors import InputError

OPTIONS = ("--help", "--multirun", "--cfg")
"""Those that users have a reason to type; Hydra has more."""
SPACED = re.compile(r"([^\s=]+)(?: ?= ?| )([^\s=]+)(?: |$)")


def check_words(script: str, words: Sequence[str]) -> None:
    """Refuse an option that Hydra does not have and, where there is none, what is no KEY=VALUE.

    Args:
        script: train or eval.
        words: of a command line, without ``-m``.

    Raises:
        InputError: names the word, and what was probably meant.
    """
    if any(word.startswith("-") for word in words):
        _check_options(script, words)
        return
    for number, word in enumerate(words):
        if "=" in word or word.startswith("~"):
            continue
        first = number - (number > 0 and words[number - 1].endswith("="))
        spaced = SPACED.match(" ".join(words[first : number + 3]))
        if "/" in word or (not spaced and Path(word).exists()):
            raise InputError(f"{word!r} is not KEY=VALUE; {_of_path(script, word)}")
        if spaced:
            found = spaced[0].strip()
            raise InputError(f"{found!r} is not KEY=VALUE; write {spaced[1]}={spaced[2]}")
        raise InputError(
            f"{word!r} is not KEY=VALUE; write no space beside =, and quotes around a value that "
            "has spaces"
        )


def _of_path(script: str, path: str) -> str:
    if script == "eval":
        return f"write checkpoint={path}, or video={path} beside a checkpoint"
    return (
        f"to go on with a run, give the command that began it; run.resume={path} goes on from its "
        f"checkpoint, python eval.py checkpoint={path} evaluates it"
    )


def _check_options(script: str, words: Sequence[str]) -> None:
    parser = get_args_parser()
    parser.exit_on_error = False
    try:
        _, unknown = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise InputError(f"{error}; python {script}.py --help shows what can be typed") from error
    for word in unknown:
        option, equals, _ = word.partition("=")
        if not word.startswith("-"):
            continue
        if near := difflib.get_close_matches(option, OPTIONS, n=1, cutoff=0.7):
            hint = f"did you mean {near[0]}?"
        elif equals:
            hint = f"write {word.lstrip('-')}"
        else:
            hint = f"keys have no dashes and take a =; python {script}.py --help shows them"
        raise InputError(f"there is no option {option!r}; {hint}")


def quoted(override: str) -> str:
    """Put quotes around a plain value that has letters unknown to Hydra's grammar."""
    key, equals, value = override.partition("=")
    plain = value and not value.isascii() and not set(value) & set("'\"\\${}[](),")
    return f"{key}='{value}'" if equals and plain else override


def nearest(key: str, known: Sequence[str]) -> list[str]:
    """Return the keys that were probably meant: those that end alike, or the one spelt most alike.

    Args:
        key: dotted, as typed.
        known: all keys that there are.
    """
    ends: dict[str, list[str]] = {}
    for one in known:
        ends.setdefault(one.rpartition(".")[2], []).append(one)
    end = key.rpartition(".")[2]
    if end in ends:
        return ends[end]
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.8):
        return near
    like = difflib.get_close_matches(end, ends, n=1, cutoff=0.8)
    return ends[like[0]] if like else []
