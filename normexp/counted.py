"""A number with its noun."""


def counted(number: int, word: str) -> str:
    """1 seed, 3 seeds, 4 depths, 2 batch sizes, 1,149 images"""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}{'es' if word.endswith('s') else 's'}"
