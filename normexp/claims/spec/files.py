"""What the files of claims and banks may hold, as pydantic models: each mistake is one line, and an editor completes
the keys by the JSON schema that `python -m normexp.claims.spec.files claim` (or `bank`, `population`) prints.

The description of a key is also the remedy that its mistakes name.
"""

import difflib
import json
import sys
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from normexp.claims.judge.comparison import Kind
from normexp.format import printable

Text = Annotated[str, Field(pattern=r"\S")]
Number = Annotated[int | float, Field(allow_inf_nan=False)]
Positive = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]
Bound = Number | Annotated[list[Number], Field(min_length=1)]
Overrides = list[Text]
TEXT = "text; quote it if it looks like a number, a list or yes and no"
NUMBER = "a number such as 0.01 or 1.0e-3 (1e-3 without the point is text in yaml)"
SWITCH = "true or false"
GONE = {
    "full": "larger settings are cells of a bank now; leave it out and ask with bank=gpu",
    "paper": "larger settings are cells of a bank now; leave it out and ask with bank=gpu",
    "contrast": "a word depends on nothing now; leave it out",
    "failed": "a failed run counts as a guess; leave it out",
    "tune": "each seed takes its own best rate over settings; leave it out and write settings",
    "universal": "one counterexample refutes a universal sentence; ask for it with kind: every",
    "replicas": "runs train alone; leave it out",
}


class File(BaseModel):
    """A mapping with these keys and no others; values are what they say, never converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ComparisonFile(File):
    """How values are compared; see `normexp.claims.judge.comparison.Comparison`."""

    kind: Kind = Field(description=f"one of {', '.join(get_args(Kind))}")
    arm: Text | None = Field(None, description=TEXT)
    baseline: Text | None = Field(None, description=TEXT)
    target: Number | None = Field(None, description=NUMBER)
    at: str | int | float | bool | None = Field(None, description="one level of the factor")
    margin: Number | Literal["practical"] = Field(0.0, description=f"{NUMBER}, or practical")
    log: bool = Field(False, description=SWITCH)
    log2_factor: bool = Field(False, description=SWITCH)
    over: Text | None = Field(None, description=TEXT)
    at_most: Bound | dict[str, Bound] | None = Field(
        None, description=f"{NUMBER}, a list along the factor, or one for each arm"
    )
    at_least: Bound | dict[str, Bound] | None = Field(
        None, description=f"{NUMBER}, a list along the factor, or one for each arm"
    )
    equals: Bound | dict[str, Bound] | None = Field(
        None, description=f"{NUMBER}, a list along the factor, or one for each arm"
    )
    tolerance: Annotated[Number, Field(ge=0)] = Field(0.0, description=f"{NUMBER}, 0 or above")


class Sample(File):
    """The first settings of a drawn bank."""

    bank: Text = Field(description="the name or the file of a drawn bank")
    first: Whole = Field(description="a whole number of at least 1")
    at: Literal["final", "early"] | None = Field(None, description="final or early")
    where: dict[str, Any] = Field({}, description="labels with their values such as {model: [MLP, CNN]}")


class Range(File):
    """Numbers between two ends, evenly or by their logarithm."""

    low: Number = Field(description=NUMBER)
    high: Number = Field(description=NUMBER)
    log: bool = Field(False, description=SWITCH)


class Search(File):
    """The budget and the space of a search for counterexamples."""

    cases: Annotated[int, Field(ge=5)] = Field(description="a whole number of at least 5")
    choose: dict[str, Range | Annotated[list[Any], Field(min_length=1)]] = Field(
        {}, description="values of each key"
    )
    weights: bool | None = Field(None, description=SWITCH)


class ManipulationFile(File):
    """The change that a causal word requires."""

    measure: Text = Field(description=TEXT)
    comparison: dict[str, Any] = Field(description="{kind: smaller, arm: a, baseline: b}")
    metric: Text | None = Field(None, description=TEXT)
    function: Text | None = Field(None, description=TEXT)


class PaperEffect(File):
    """What the literature measured."""

    value: Text = Field(description=TEXT)
    where: Text = Field(description=TEXT)
    size: Text = Field(description=TEXT)
    effect: Number | None = Field(None, description=NUMBER)


Listed = list[Text | dict[str, Overrides]]


class ClaimFile(File):
    """A claim: a sentence that could be false, with everything that was fixed before it was tested."""

    id: Text | None = Field(None, description="the name of the claim; by default that of its file")
    name: Text = Field(description=TEXT)
    sentence: Text = Field(description=TEXT)
    source: Text = Field(description=TEXT)
    covers: list[Text] = Field(description="a list of ids such as [S37, P03]")
    evidence: Literal["law", "initialization", "training", "none"] = Field(
        description="law, initialization, training or none"
    )
    measure: Text | None = Field(None, description=TEXT)
    function: Text | None = Field(
        None, description="a function of normexp.claims.laws such as invariances.summed_inputs"
    )
    metric: Text | dict[str, Text] | None = Field(
        None, description="a metric such as test/accuracy, or one for each arm"
    )
    arms: dict[str, Overrides | dict[str, Any]] = Field(
        {}, description="names with overrides such as {rms: [norm=rmsnorm], none: [norm=none]}"
    )
    fixed: Overrides = Field([], description="a list of overrides such as [model=mlp, lr=0.1]")
    options: dict[str, Any] = Field({}, description="names with values such as {batch_size: 64}")
    factor: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        {}, description="a name with its values such as {batch_size: [2, 8, 32]}"
    )
    seeds: int = Field(5, description="a whole number such as 10")
    first_seed: int = Field(0, description="a whole number such as 100")
    better: Literal["lower", "higher"] | None = Field(None, description="lower or higher")
    expected: Literal["supported", "refuted", "undecided"] | None = Field(
        None, description="supported, refuted or undecided"
    )
    seconds: Positive = Field(0.02, description=f"{NUMBER}, above 0")
    reason: Text | None = Field(None, description=TEXT)
    note: Text | None = Field(None, description=TEXT)
    does_not_show: Text | None = Field(None, description=TEXT)
    withdrawn: Text | None = Field(None, description=TEXT)
    kind: Literal["verbatim", "paraphrase", "ours", "arithmetic", "self-check"] | None = Field(
        None, description="verbatim, paraphrase, ours, arithmetic or self-check"
    )
    settings: Sample | Annotated[Listed, Field(min_length=1)] | dict[str, Overrides | Text] | None = Field(
        None,
        description="names of cells, labels such as {data: MNIST}, or own ones such as {a: [model=mlp, data=digits]}",
    )
    rate: Literal["own", "lowest", "middle", "highest"] = Field(
        "own", description="own, lowest, middle or highest"
    )
    paper_effect: PaperEffect | None = Field(
        None,
        description="like {value: 10.6 points, where: table 2, size: 'ResNet-50, 1.28M images', effect: 0.4}",
    )
    search: Search | None = Field(
        None,
        description="like {cases: 400, weights: true, choose: {model.activation: [relu], mean: {low: 0, high: 9}}}",
    )
    manipulation: ManipulationFile | None = Field(
        None,
        description="like {metric: logged/shift/*, measure: words, comparison: {kind: smaller, arm: a, baseline: b}}",
    )
    comparison: dict[str, Any] | list[dict[str, Any]] = Field(
        [], description="like {kind: greater, arm: a, baseline: b, margin: 0.01}, or a list of such"
    )


class Facts(File):
    """What is known of a cell's data."""

    validation: Whole = Field(description="a whole number of at least 1")
    chance: Annotated[Positive, Field(lt=1)] = Field(
        description="a share below 1, that of the most frequent answer"
    )
    guess_loss: Positive = Field(description="a positive number")
    test_to_train: Positive = Field(description="a positive number")


class CellFile(File):
    """A cell of a bank: one setting."""

    overrides: Annotated[Overrides, Field(min_length=1)] = Field(description="a list of texts")
    labels: dict[str, Any] | None = Field(
        None, description="data and model, such as {data: MNIST, model: MLP}"
    )
    rates: Annotated[list[Positive], Field(min_length=3)] | None = Field(
        None, description="three or more positive numbers"
    )
    test: Literal["test set", "cut again", "blocks"] | None = Field(
        None, description="test set, cut again or blocks"
    )
    facts: Facts | None = Field(
        None, description="like {validation: 5000, chance: 0.1, guess_loss: 2.3, test_to_train: 0.2}"
    )
    seconds: Positive | None = Field(None, description="a positive number")
    replicas: bool | None = Field(None, description=SWITCH)  # of registered protocols; runs train alone now


class GridFile(File):
    """The norms and seeds that a bank trains itself."""

    norms: Annotated[Overrides, Field(min_length=1)] = Field(description="a list of norms")
    seeds: Whole = Field(description="a whole number of at least 1")
    cells: list[Text] | None = Field(None, description="a list of cells")


class BankFile(File):
    """A bank: settings that somebody chose."""

    shared: Overrides | None = Field(None, description="a list of texts")
    cells: Annotated[dict[str, CellFile | Overrides], Field(min_length=1)] = Field(
        description="cells by name; see docs/claims.md"
    )
    grid: GridFile | None = Field(None, description="like {norms: [none, batchnorm], seeds: 2}")


class Stratum(File):
    """A kind of models of a population."""

    share: Whole = Field(description="a whole number of at least 1")
    fixed: Overrides | None = Field(None, description="a list of texts")
    choose: dict[str, Any] | None = Field(None, description="labels with their choices")


class Length(File):
    """The rules by which pilots found lengths."""

    updates: Whole = Field(description="a whole number of at least 1")
    passes: Positive = Field(description="a positive number")
    start_seconds: Positive = Field(description="a positive number")
    seconds: Positive = Field(description="a positive number")
    learned: Positive = Field(description="a positive number")
    gain: Positive = Field(description="a positive number")
    early: Annotated[int | float, Field(gt=1)] = Field(description="above 1, a divisor of the final length")
    widenings: Whole = Field(description="a whole number of at least 1")
    seed: Annotated[int, Field(ge=0)] = Field(description="a whole number of at least 0")
    ngrams: Whole | None = Field(None, description="a whole number of at least 1")


class Between(File):
    """A number that is drawn between two ends, evenly by its logarithm."""

    key: Text = Field(description=TEXT)
    low: Positive = Field(description="a positive number")
    high: Positive = Field(description="a positive number")


class Values(File):
    """A value that is drawn from a list."""

    key: Text = Field(description=TEXT)
    values: Annotated[list[Any], Field(min_length=1)] = Field(description="a list of one or more values")


class PopulationFile(File):
    """A bank whose settings a written seed draws."""

    seed: Annotated[int, Field(ge=0)] = Field(description="a whole number of at least 0")
    settings: Whole = Field(description="a whole number of at least 1")
    strata: Annotated[dict[str, Stratum], Field(min_length=1)] = Field(description="kinds of models by name")
    shared: Overrides | None = Field(None, description="a list of texts")
    choose: dict[str, Any] | None = Field(None, description="labels with their choices")
    rates: dict[str, Annotated[list[Positive], Field(min_length=3)]] | None = Field(
        None, description="three or more positive numbers for each optimizer"
    )
    length: Length | None = Field(None, description="the rules of the pilots")
    grid: GridFile | None = Field(None, description="like {norms: [none, batchnorm], seeds: 2}")


def check(node: Any, model: type[File], where: str = "") -> None:
    """Raise ValueError with one line, `where` before it, for the first mistake: a key that is missing or unknown, or a
    value of another form."""
    if (text := _unprintable(node)) is not None:
        raise ValueError(
            f"{where}{printable(shorten(text))}: has a character that no line can show; leave it out"
        )
    try:
        model.model_validate(node)
    except ValidationError as error:
        raise ValueError(f"{where}{_said(error, node, model)}") from None


def _said(error: ValidationError, node: Any, model: type[File]) -> str:
    if not isinstance(node, dict) or not all(isinstance(key, str) for key in node):
        return f"{shorten(node)}: must be the keys {', '.join(model.model_fields)}"
    found = error.errors(include_url=False)
    keys = [e for e in found if len(e["loc"]) == 1 and e["type"] in ("extra_forbidden", "missing")]
    top = min(keys, key=lambda e: e["type"], default=found[0])["loc"][0]
    places = [_place(e, node, model) for e in found if e["loc"][0] == top]
    # of the forms that a value may have, the one that went furthest; a slip of the pen before the key that it hides
    place = max(places, key=lambda p: (len(p.keys), p.type == "extra_forbidden"))
    key = ".".join(place.keys)
    if place.type == "missing":
        return f"{key}: is missing; add it"
    if place.type == "extra_forbidden":
        near = difflib.get_close_matches(place.keys[-1], place.known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{key}: no such key; {hint}the keys are {', '.join(place.known)}"
    return f"{key}={shorten(place.value)}: must be {place.wanted}"


def _unprintable(node: Any) -> str | None:
    """The first text in a file that a terminal would act on."""
    if isinstance(node, str):
        return node if printable(node) != node else None
    parts = [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []
    return next((text for part in parts if (text := _unprintable(part)) is not None), None)


class _Place(NamedTuple):
    keys: list[str]
    type: str
    value: Any
    wanted: str
    known: list[str]


def _place(error: Any, node: Any, model: type[File]) -> _Place:
    """Where an error of pydantic lies in a file: its path also names the forms of a value, which are no keys."""
    keys, value, wanted, models, known = list[str](), node, "", [model], list(model.model_fields)
    for part in error["loc"]:
        if isinstance(value, list) and isinstance(part, int):
            value = value[part]
        elif isinstance(value, dict) and (
            part in value or (error["type"] == "missing" and part == error["loc"][-1])
        ):
            known = [name for own in models for name in own.model_fields]
            field = next((own.model_fields[part] for own in models if part in own.model_fields), None)
            keys.append(str(part))
            value, wanted = value.get(part), (field.description if field else "") or wanted
            models = _models_in(field.annotation) if field else models
    return _Place(keys, error["type"], value, wanted, known)


def _models_in(annotation: Any) -> list[type[File]]:
    if isinstance(annotation, type) and issubclass(annotation, File):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def shorten(value: Any) -> str:
    """A value on one line, of at most 60 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


if __name__ == "__main__":
    models = {"claim": ClaimFile, "bank": BankFile, "population": PopulationFile}
    print(json.dumps(models[sys.argv[1]].model_json_schema(), indent=1))
