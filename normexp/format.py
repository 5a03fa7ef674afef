"""Numbers and times in words, and what a line can show."""

import re

# They move the cursor or end the line, where names are shown on screens and in tables.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def duration(seconds: float) -> str:
    """4 s, 3:20 min, 2:05 h"""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    minutes = seconds / 60
    if minutes < 60:
        return f"{int(minutes)}:{int(seconds % 60):02d} min"
    return f"{int(minutes // 60)}:{int(minutes % 60):02d} h"


def pluralize(number: int, word: str) -> str:
    """1 seed, 3 seeds, 4 depths, 2 batch sizes, 1,149 images"""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}{'es' if word.endswith('s') else 's'}"
