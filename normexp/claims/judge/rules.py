"""The constants behind every verdict over settings. A registered protocol holds them."""

from normexp.claims.judge import failures, saturation, setting_effect, settings_word, tuning
from normexp.claims.judge.decide import ALPHA

RULES = {
    "alpha": ALPHA,
    "settings that vote, at least": settings_word.FEWEST_SETTINGS,
    "pairs in a setting that votes, at least": setting_effect.FEWEST_PAIRS,
    "pairs together, at least": settings_word.FEWEST_PAIRS_TOGETHER,
    "share of settings that point one way, at least": settings_word.POINTING,
    "wrong answers a run below which a setting is at its ceiling": saturation.FEWEST_WRONG,
    "share of guessing above which a setting is at its floor": saturation.FLOOR,
    "p above which a run never got above chance": failures.ABOVE_CHANCE,
    "share of seeds at an edge above which a grid is widened": tuning.EDGE_SHARE,
    "widenings, at most": tuning.MOST_WIDENINGS,
}
