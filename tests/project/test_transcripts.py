"""The tutorial and the README print what commands print.

Everything must be the same, to the letter, but for three kinds of numbers: how long it took; what is nothing
but rounding, below 1e-12; and all others by 1 %, since another processor may round the last digit otherwise.
"""

import re

import pytest

from scripts import transcripts

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
ROUNDING = 1e-12


def assert_alike(written, found):
    """Lines are the same, numbers within 1 %."""
    written, found = (transcripts.TIME.sub("in … s", re.sub(r" +", " ", line)) for line in (written, found))
    assert NUMBER.sub("#", written) == NUMBER.sub("#", found)
    pairs = zip(NUMBER.findall(written), NUMBER.findall(found), strict=True)
    for before, now in ([float(number.replace(",", "")) for number in pair] for pair in pairs):
        assert now == pytest.approx(before, rel=0.01, abs=ROUNDING)


def compare(page, printed):
    blocks = transcripts.BLOCK.findall(page.read_text())
    steps = [step for block in blocks for step in transcripts.steps(block)]
    assert len(steps) >= 5
    for command, written in steps:
        lines = transcripts.written(printed[transcripts.COMMENT.sub("", command)], written)
        assert len(written) == len(lines), f"{command}: run python scripts/transcripts.py"
        for one, other in zip(written, lines, strict=True):
            assert_alike(one, other)


@pytest.mark.slow
def test_tutorial_and_readme_print_what_commands_print(tmp_path):
    printed = transcripts.run(tmp_path)
    for page in (transcripts.TUTORIAL, transcripts.README):
        compare(page, printed)


def test_differences_are_noticed():
    assert_alike("a: 20,000 rows in 1.2 s", "a:  20,000 rows in 9 s")
    assert_alike("agree to 7e-18, MMD 0.1", "agree to 3e-16, MMD 0.1001")
    for other in ("a: 20,000 lines in 1.2 s", "a: 21,000 rows in 1.2 s", "a: 20,000 rows"):
        with pytest.raises(AssertionError):
            assert_alike("a: 20,000 rows in 1.2 s", other)
