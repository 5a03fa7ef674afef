"""Name a claim, get a verdict with its evidence: `normexp verify claim=S37`; `--help` lists all claims."""

import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from normexp.claims.evidence.stored import EVIDENCE, StoredEvidence
from normexp.claims.pages.verdicts_page import verdicts_in, write_page
from normexp.claims.spec.bank import SMALL, load_bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, load_each
from normexp.claims.spec.select import ENDINGS, arxiv_id, find, matching, topic
from normexp.cli.errors import say_error
from normexp.config import folder
from normexp.config.folder import read_options
from normexp.config.process import (
    BAD_INPUT,
    command,
    cut_quietly,
    fast_imports,
    prepare,
    tolerate_closed_stdout,
)
from normexp.sweeps.places.place import options_of, take_flags

CONFIGS = folder.CONFIGS / "claim"
DEMO = (
    "sigmoid_gradients_vanish,batchnorm_relieves_sigmoid,layernorm_stabilizes_sigmoid,batchnorm_relu_explodes,"
    "pre_norm_stream_is_stable"
)
DEFAULTS = {
    "claim": "demo",
    "find": "",
    "out": "outputs/claims",
    "bank": SMALL,
    "tune": "validation",
    "page": "",
    "keep": "",
    "evidence": "",
    "registry": "",
    "workers": "auto",
    "allow_targets": "",
    "config_dir": "",
    "budget": "",
}
BUDGET = "budget={0}: larger settings are cells of a bank now; write bank=gpu, or bank=mine.yaml with cells of your own"

EXAMPLES = {
    "": "the initialization laboratory: what depth does, in under a minute",
    "claim=S37": "an id, a name, or several with commas",
    "2503.10622": "all claims whose source is the paper with this arXiv id",
    "find='batch size'": "the claims about it: those with all these words in their sentence,\nsource or topic",
    "claim='S3*'": "a glob; law, initialization and training are kinds; or all",
    "claim=mine.yaml": "a claim of your own; docs/claims.md says what stands in the file",
    "claim=mine.yaml bank=cells.yaml": "its `settings` are cells of your own",
    "claim=P10 bank=gpu --plan": "what would be trained in settings of the size of papers; the\n"
    "flags of sweeps: --place slurm, --memory 4GB, ... (docs/sweeps.md)",
    "claim=P10 out=DIR": "where DIR/<id>/verdict.json goes (outputs/claims)",
    "claim=P10 evidence=none": "trains all runs here; else those of the ledger count, which comes\n"
    "with the package; or evidence=DIR, another ledger",
    "claim=P10 tune=none": "every arm gets the optimizer's own learning rate; the fair\n"
    "verdict stays and is named beside it",
    "claim=all workers=4": "so many runs at a time, each in a process of its own; auto:\n"
    "as many as there are cores, or GPUs",
    "claim=M1 --config-dir my_configs": "a claim of your own folder, my_configs/claim/M1.yaml; its arms\n"
    "may name the norms, models and data there",
    "claim=M1 allow_targets=[pkg]": "a claim of yours may build classes of that package",
    "claim=M1 registry=FILE": "where its row stands, else registry.jsonl here (normexp register)",
    "claim=S37 keep=docs/evidence": "also keep its values there, to be committed and judged again",
    "page=docs/verdicts.md": "judge all again from the ledger and write the page; several with\ncommas: "
    "docs/when.md (when claims hold), docs/findings.md\n(at most ten, with figures)",
    "page=FILE out=DIR": "write the page of the verdicts in DIR",
    "page=site claim=mine.yaml": "a site of these claims alone, from their verdicts",
}


@tolerate_closed_stdout()
def main(arguments: list[str]) -> int:
    """Judge the claims that the arguments name. Returns the exit status, which is 0 for any verdict."""
    prepare()
    if {"-h", "--help"} & set(arguments):
        with cut_quietly():
            show_help()
        return 0
    try:
        arguments, given = take_flags(arguments)
        options = read(arguments)
        workers = [("workers", options["workers"])] if options["workers"] != "auto" else []
        engine = options_of([*workers, *given])  # the flags are those of a sweep
        if options["find"]:
            return find_claims(options["find"])
        if options["page"]:
            for line in write_pages([Path(one) for one in options["page"].split(",")], options):
                print(line, flush=True)
            return 0
        words = DEMO if options["claim"] == "demo" else options["claim"]
        chosen, left_out, others = find(words, load_bank(options["bank"]))
        warn(others)
        if options["bank"] != SMALL:
            warn(without_settings(options["bank"], chosen))
        out = Path(options["out"])
        if not engine.plan:
            out.mkdir(parents=True, exist_ok=True)
        if sum(claim.evidence == "training" for claim in chosen) > 1:
            print(f"looking for finished runs in {out / 'cache'}", flush=True)
        with fast_imports():  # torch and Lightning take seconds to import
            from normexp.claims.verify_claims import verify_all

        status = verify_all(
            chosen,
            out,
            tuned=options["tune"] != "none",
            command=command_of_one(options),
            options=engine,
            evidence=ledger(options["evidence"]),
            registries=[Path(options["registry"])] if options["registry"] else None,
            keep_in=Path(options["keep"]) if options["keep"] else None,
        )
        if options["claim"] in ("demo", "initialization", "all"):
            from normexp.figures.laboratory import draw_laboratory

            draw_laboratory(out / "initialization.png")
            print(f"figure: {out / 'initialization.png'}")
        for mistake in left_out:
            print(f"Error: {mistake}", file=sys.stderr)
        return BAD_INPUT if left_out else status
    except Exception as error:
        return say_error(error)
    # An interrupted training run keeps a checkpoint and exits.
    except (KeyboardInterrupt, SystemExit) as stop:
        print("interrupted; the same command goes on from there", file=sys.stderr)
        return 130 if isinstance(stop, KeyboardInterrupt) else stop.code  # type: ignore[return-value]


def without_settings(bank: str, chosen: list[Claim]) -> list[str]:
    """A line on the claims that a bank does not change. Raises ValueError if those are all."""
    fixed = [claim.id for claim in chosen if not claim.settings]
    if not fixed:
        return []
    named = ", ".join(fixed[:5]) + (", ..." if len(fixed) > 5 else "")
    line = f"bank={bank}: changes nothing of {named}, which has no `settings`"
    if len(fixed) == len(chosen):
        raise ValueError(f"{line}; leave bank= out, or write `settings` into the file of the claim")
    return [line]


def ledger(place: str) -> StoredEvidence | None:
    """The ledger that an option names: that of the package, a folder, or none."""
    if place == "none":
        return None
    if place and not Path(place).is_dir():
        raise ValueError(f"evidence={place}: no such folder; name a ledger, or none")
    return StoredEvidence(Path(place) if place else EVIDENCE)


def write_pages(paths: Sequence[Path], options: dict[str, str]) -> Iterator[str]:
    """Write pages of all verdicts, or a site of them where a path does not end in .md: from `out` if it was named, else
    judged again from the ledger, once for all pages. If claims were named, the pages have those alone, from `out`.
    Yields a line on each."""
    for path in paths:
        if path.is_dir() and (
            path.suffix == ".md" or not {"index.html", "claims"} <= {one.name for one in path.iterdir()}
        ):
            raise ValueError(
                f"page={path}: is a folder with other files; name a new one, or a file that ends in .md"
            )
    if named := options["claim"] != DEFAULTS["claim"]:
        chosen, left_out, _ = find(options["claim"], load_bank(options["bank"]))
        for mistake in left_out:
            raise ValueError(mistake)
        claims = {claim.id: claim for claim in chosen}
    else:
        claims = load_claims(CONFIGS)
    if not named and options["out"] == DEFAULTS["out"]:
        from normexp.claims.conclude import judge_all_again

        verdicts = judge_all_again(claims)
    else:
        verdicts = verdicts_in(claims, Path(options["out"]))
    for path in paths:
        yield write_page(path, claims, verdicts)


def show_help() -> None:
    """Print how to use the command, and every claim in one line."""
    claims, broken = load_each(CONFIGS)
    warn(broken.values())
    print("Name a claim about normalization, get a verdict with its evidence.\n")
    for arguments, what in EXAMPLES.items():
        first, *more = what.split("\n")
        print(
            f"  {command('verify') + ' ' + arguments:<47}  {first}",
            *(f"{'':51}{line}" for line in more),
            sep="\n",
        )
    print(
        "\nA verdict is a word, a count of settings, or what was seen here; each is a result: the exit status is 0."
        "\n\nClaims:"
    )
    list_claims(claims.values())
    for name, how in folder.brought_names("claim").items():
        print(f"  {name}  of an installed package; add {how}")


def list_claims(claims: Collection[Claim]) -> None:
    """One line each."""
    width = max(len(claim.id) for claim in claims)
    for claim in claims:
        kind = "cannot be tested" if claim.evidence == "none" else claim.evidence
        print(f"  {claim.id:<{width}}  {claim.sentence} [{kind}]")


def find_claims(words: str) -> int:
    """Print the claims that have all of the words, by topic. Returns the exit status."""
    found = matching(load_each(CONFIGS)[0].values(), words)
    if not found:
        raise ValueError(
            f"find={words}: no claim has all of these words; fewer find more, and --help lists all claims"
        )
    for name in dict.fromkeys(map(topic, found)):
        print(name)
        list_claims([claim for claim in found if topic(claim) == name])
    print(f"judge one: {command('verify')} claim={found[0].id}")
    return 0


def warn(mistakes: Iterable[str]) -> None:
    """Print mistakes in files that were not asked for. They stop nothing, but their author should know."""
    for mistake in mistakes:
        print(f"Warning: {mistake}", file=sys.stderr)


def read(arguments: list[str]) -> dict[str, str]:
    """Options as key=value. Raises ValueError for anything else."""
    asked = [f"claim={word}" if arxiv_id(word) else word for word in arguments]
    options = read_options(asked, DEFAULTS)
    if options["budget"]:
        raise ValueError(BUDGET.format(options["budget"]))
    if options["tune"] not in ("validation", "none"):
        raise ValueError(f"tune={options['tune']}: choose from validation, none")
    if options["workers"] != "auto" and not (options["workers"].isdecimal() and int(options["workers"])):
        raise ValueError(f"workers={options['workers']}: must be auto or a whole number of at least 1")
    return options


def command_of_one(options: dict[str, str]) -> str:
    """The command that reproduces one claim, without its id and tune=none."""
    asked = "{id}"
    if options["claim"].endswith(ENDINGS) and "," not in options["claim"]:
        asked = shlex.quote(options["claim"])
    given = [
        f"{key}={shlex.quote(options[key])}"
        for key in ("bank", "evidence", "registry")
        if options[key] != DEFAULTS[key]
    ]
    allowed = [f"allow_targets={options['allow_targets']}"] if options["allow_targets"] else []
    own = [f"--config-dir {shlex.quote(options['config_dir'])}"] if options["config_dir"] else []
    return " ".join([command("verify"), f"claim={asked}", *given, *allowed, *own])
