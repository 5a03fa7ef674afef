"""Equal arms whose test set is a sample. How often are they called different: by an interval over seeds alone, and by
the judge's interval? The truth is the mean over all possible seeds and examples."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.decide import ALPHA
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, blocks
from normexp.claims.judge.setting_effect import effect_in
from normexp.claims.judge.settings_word import p_region

DIFFERENT = Comparison(kind="different", arm="a", baseline="b", log=True)
SEEDS = 5


def fixed_test_set(generator: np.random.Generator, examples: int = 360, error: float = 0.05) -> Setting:
    """Two arms with an error of 5%. For each arm, other images are hard for all its runs."""
    arms: dict[Arm, Outcomes] = {}
    for arm in "ab":
        chance = np.minimum(error * generator.gamma(0.2, 5.0, size=examples), 1.0)
        arms[arm, ""] = Outcomes.of_examples(range(SEEDS), generator.random((SEEDS, examples)) < chance)
    return Setting("fixed", arms, "test set", True)


def text(generator: np.random.Generator, windows: int = 2000, alike: int = 20) -> Setting:
    """Losses of two arms on a text with topics of 20 windows. Each topic suits one of the arms."""
    topic = np.repeat(generator.normal(size=windows // alike), alike)
    arms: dict[Arm, Outcomes] = {}
    for arm, sign in (("a", 1), ("b", -1)):
        losses = 2.0 + 0.1 * sign * topic + 0.2 * generator.normal(size=(SEEDS, windows))
        arms[arm, ""] = Outcomes.of_examples(range(SEEDS), blocks(losses, 2 * alike))
    return Setting("text", arms, "test set")


def splits_cut_again(generator: np.random.Generator, pool: int = 200, train: int = 128) -> Setting:
    """Two linear regressions, each on one of two equally informative features. Every seed cuts the pool anew.

    In a given pool, one feature happens to be more informative in every split. Seeds alone cannot show this.
    """
    x = generator.normal(size=(2, pool))  # (features, pool)
    y = x.sum(0) + generator.normal(size=pool)
    losses = np.empty((2, SEEDS, pool - train))
    for seed in range(SEEDS):
        rows = generator.permutation(pool)
        fit, test = rows[:train], rows[train:]
        slopes = (x[:, fit] * y[fit]).sum(1) / (x[:, fit] ** 2).sum(1)
        losses[:, seed] = (y[test] - slopes[:, None] * x[:, test]) ** 2
    arms: dict[Arm, Outcomes] = {
        (arm, ""): Outcomes.of_examples(range(SEEDS), own) for arm, own in zip("ab", losses, strict=True)
    }
    return Setting("cut", arms, "cut again", test_to_train=(pool - train) / train)


DESIGNS: dict[str, Callable[[np.random.Generator], Setting]] = {
    "test set of 360 images": fixed_test_set,
    "text in blocks": text,
    "splits cut again": splits_cut_again,
}


def called_different(make: Callable[[np.random.Generator], Setting], trials: int) -> tuple[float, float]:
    """How often equal arms are called different: (by an interval over seeds alone, by the judge's interval)."""
    found = np.array([[_p(setting) for setting in pair] for pair in _pairs(make, trials)])  # (trials, 2)
    return tuple((found <= ALPHA).mean(0).tolist())


def _pairs(make: Callable[[np.random.Generator], Setting], trials: int) -> Iterator[tuple[Setting, Setting]]:
    generator = np.random.default_rng(0)
    for _ in range(trials):
        setting = make(generator)
        yield dataclasses.replace(setting, design="seeds"), setting


def _p(setting: Setting) -> float:
    return float(p_region(effect_in(setting, DIFFERENT).known_mean, DIFFERENT.supporting()))


def failing_family(
    generator: np.random.Generator, share: float, settings: int = 8, seeds: int = 10, effect: float = 0.0
) -> list[Setting]:
    """Settings in which runs of arm a fail by chance and those of b never. If both trained, a is `effect` above b."""
    found = []
    for number in range(settings):
        arms: dict[Arm, Outcomes] = {}
        for arm, mean in (("a", effect), ("b", 0.0)):
            failed = generator.random(seeds) < (share if arm == "a" else 0.0)
            arms[arm, ""] = Outcomes(
                np.arange(seeds), np.exp(mean + 0.2 * generator.normal(size=seeds) - 3), failed
            )
        found.append(Setting(str(number), arms, guess=0.9))
    return found
