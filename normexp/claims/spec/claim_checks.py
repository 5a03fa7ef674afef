"""The shape of a claim's yaml: its keys, the form of their values, and what is said of another one."""

from typing import get_args

from normexp.claims.judge.comparison import PRACTICAL, Kind
from normexp.claims.spec.claim import EVIDENCE, VERDICTS
from normexp.claims.spec.shape import (
    ANY,
    OBJECT,
    SWITCH,
    TEXT,
    TEXTS,
    WHOLE,
    Shape,
    keyed,
    listed,
    mapping_of,
    optional,
)

A_NUMBER = "must be a number such as 0.01 or 1.0e-3 (1e-3 without the point is text in yaml)"
NUMBER: Shape = {"type": "number", "wanted": A_NUMBER}
ONE_BOUND: Shape = {"anyOf": [NUMBER, listed(NUMBER, minItems=1)]}
BOUND: Shape = {
    "anyOf": [{"type": "null"}, *ONE_BOUND["anyOf"], mapping_of(ONE_BOUND)],
    "wanted": f"{A_NUMBER}, a list of them along the factor, or one of these for each arm",
}
COMPARISON = keyed(
    {
        "kind": {"enum": [*get_args(Kind), None]},
        "arm": optional(TEXT),
        "baseline": optional(TEXT),
        "target": optional(NUMBER),
        "at": {
            "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")],
            "wanted": "must be one level of the factor",
        },
        # Below 0 if a claimed advantage may be a small loss.
        "margin": {"anyOf": [NUMBER, {"enum": [PRACTICAL]}], "wanted": f"{A_NUMBER}, or {PRACTICAL}"},
        "log": SWITCH,
        "log2_factor": SWITCH,
        "over": optional(TEXT),
        "at_most": BOUND,
        "at_least": BOUND,
        "equals": BOUND,
        "tolerance": {"type": "number", "minimum": 0, "wanted": f"{A_NUMBER}, 0 or above"},
    }
)
KINDS = ("verbatim", "paraphrase", "ours", "arithmetic", "self-check")  # whose sentence it is
RATES = ("own", "lowest", "middle", "highest")  # the learning rate of a run, from its setting's grid
OVERRIDES: Shape = {**TEXTS, "wanted": "must be a list of overrides such as [model=mlp, lr=0.1]"}
SAMPLE = keyed(  # the first settings of a drawn bank
    {"bank": TEXT, "first": WHOLE, "at": {"enum": ["final", "early"]}, "where": OBJECT}, "bank first"
)
SPACE: Shape = {
    "anyOf": [
        keyed({"low": NUMBER, "high": NUMBER, "log": SWITCH}, "low high"),
        listed(ANY, minItems=1),
    ]
}
CLAIM = keyed(
    {
        "id": optional(TEXT),  # else the name of the file
        "name": TEXT,
        "sentence": TEXT,
        "source": TEXT,
        "covers": {**TEXTS, "wanted": "must be a list of ids such as [S37, P03]"},
        "evidence": {"enum": list(EVIDENCE)},
        "measure": TEXT,
        "function": optional(TEXT),
        "metric": {
            "anyOf": [TEXT, mapping_of(TEXT), {"type": "null"}],
            "wanted": "must be a metric such as test/accuracy, or one for each arm",
        },
        "arms": mapping_of(
            {"anyOf": [TEXTS, OBJECT]},
            wanted="must be names with overrides such as {rms: [norm=rmsnorm], none: [norm=none]}",
        ),
        "fixed": OVERRIDES,
        "options": mapping_of(ANY, wanted="must be names with values such as {batch_size: 64}"),
        "factor": mapping_of(
            listed(ANY, minItems=1), wanted="must be a name with its values such as {batch_size: [2, 8, 32]}"
        ),
        "seeds": {"type": "integer", "wanted": "must be a whole number such as 10"},
        "first_seed": {"type": "integer", "wanted": "must be a whole number such as 100"},
        "better": {"enum": ["lower", "higher", None], "wanted": "must be lower or higher"},
        "replicas": SWITCH,
        "universal": SWITCH,
        "tune": optional(
            keyed(
                {"lr": listed({"type": "number", "exclusiveMinimum": 0}, minItems=1), "seeds": WHOLE},
                "lr seeds",
                wanted="must be rates above 0 and how many seeds, such as {lr: [0.1, 0.3], seeds: 2}",
            )
        ),
        "expected": {"enum": [*VERDICTS, None]},
        "seconds": {"type": "number", "exclusiveMinimum": 0, "wanted": f"{A_NUMBER}, above 0"},
        "reason": TEXT,
        "note": TEXT,
        "does_not_show": TEXT,
        "kind": {"enum": list(KINDS), "wanted": f"must be {', '.join(KINDS[:-1])} or {KINDS[-1]}"},
        "settings": {
            "anyOf": [
                listed({"anyOf": [TEXT, mapping_of(TEXTS)]}, minItems=1),
                mapping_of(TEXTS, minProperties=1),
                mapping_of({"anyOf": [TEXT, TEXTS]}, minProperties=1),
                SAMPLE,
                {"type": "null"},
            ],
            "wanted": "must be names of cells, labels such as {data: MNIST}, or own ones such as "
            "{a: [model=mlp, data=digits]}",
        },
        "rate": {"enum": list(RATES), "wanted": f"must be {', '.join(RATES[:-1])} or {RATES[-1]}"},
        "paper_effect": keyed(
            {"value": TEXT, "where": TEXT, "size": TEXT, "effect": NUMBER},
            "value where size",
            wanted="must be like {value: 10.6 points, where: table 2, size: 'ResNet-50, 1.28M images', effect: 0.4}",
        ),
        "search": keyed(
            {"cases": {"type": "integer", "minimum": 5}, "choose": mapping_of(SPACE), "weights": SWITCH},
            "cases",
            minProperties=2,
            wanted="must be like {cases: 400, weights: true, choose: {model.activation: [relu, tanh], mean: {low: 0, "
            "high: 9}}}",
        ),
        "manipulation": optional(
            keyed(
                {"measure": TEXT, "comparison": OBJECT, "metric": TEXT, "function": TEXT},
                "measure comparison",
                wanted="must be like {metric: logged/shift/*, measure: in words, comparison: {kind: smaller, arm: a, "
                "baseline: b}}",
            )
        ),
        "comparison": {
            "anyOf": [OBJECT, listed(OBJECT)],
            "wanted": "must be like {kind: greater, arm: a, baseline: b, margin: 0.01}, or a list of such",
        },
    },
    "name sentence source covers evidence",
)
