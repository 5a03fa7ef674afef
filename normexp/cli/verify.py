"""Name a claim, get a verdict with its evidence: `normexp verify claim=S37`; `--help` lists all claims."""

import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from normexp.claims.spec.bank import SMALL, load_bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, load_each
from normexp.claims.spec.select import ENDINGS, arxiv_id, find, matching, topic
from normexp.cli.command import command
from normexp.config import folder
from normexp.config.process import BAD_INPUT, fast_imports, tolerate_closed_stdout
from normexp.config.process import command as to_type

if TYPE_CHECKING:
    from normexp.claims.evidence.stored import StoredEvidence  # loads scipy, which takes a second

CONFIGS = folder.CONFIGS / "claim"
DEMO = (
    "sigmoid_gradients_vanish,batchnorm_relieves_sigmoid,layernorm_stabilizes_sigmoid,batchnorm_relu_explodes,"
    "pre_norm_stream_is_stable"
)


def claims_in_lines() -> str:
    """Every claim in one line, for the help; files that cannot be read are said."""
    claims, broken = load_each(CONFIGS)
    warn(broken.values())
    brought = folder.brought_names("claim").items()
    others = [f"  {name}  of an installed package; add {how}" for name, how in brought]
    return "\n".join(["Claims:", *lines_of(claims.values()), *others])


@command(more=claims_in_lines)
@tolerate_closed_stdout()
def main(asked: SimpleNamespace) -> int:
    """Judge the claims that the words name. Returns the exit status, which is 0 for any verdict."""
    for word in asked.others:
        if not arxiv_id(word):
            raise ValueError(f"{word}: write key=value, such as claim={word}; --help explains")
        asked.claim = word
    if asked.find:
        find_claims(asked.find)
        return 0
    if asked.page:
        for line in write_pages([Path(one) for one in asked.page.split(",")], asked):
            print(line, flush=True)
        return 0
    words = DEMO if asked.claim == "demo" else asked.claim
    chosen, left_out, others = find(words, load_bank(asked.bank))
    warn(others)
    if asked.bank != SMALL:
        warn(without_settings(asked.bank, chosen))
    if not asked.engine.plan:
        asked.out.mkdir(parents=True, exist_ok=True)
    if sum(claim.evidence == "training" for claim in chosen) > 1:
        print(f"looking for finished runs in {asked.out / 'cache'}", flush=True)
    with fast_imports():  # torch and Lightning take seconds to import
        from normexp.claims.verify_claims import verify_all

    status = verify_all(
        chosen,
        asked.out,
        tuned=asked.tune != "none",
        command=command_of_one(asked),
        options=asked.engine,
        evidence=ledger(asked.evidence),
        registries=[asked.registry] if asked.registry else None,
        keep_in=asked.keep,
    )
    if asked.claim in ("demo", "initialization", "all"):
        from normexp.figures.laboratory import draw_laboratory

        draw_laboratory(asked.out / "initialization.png")
        print(f"figure: {asked.out / 'initialization.png'}")
    for mistake in left_out:
        print(f"Error: {mistake}", file=sys.stderr)
    return BAD_INPUT if left_out else status


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


def ledger(place: str) -> "StoredEvidence | None":
    """The ledger that an option names: that of the package, a folder, or none."""
    from normexp.claims.evidence.stored import EVIDENCE, StoredEvidence

    if place == "none":
        return None
    if place and not Path(place).is_dir():
        raise ValueError(f"evidence={place}: no such folder; name a ledger, or none")
    return StoredEvidence(Path(place) if place else EVIDENCE)


def write_pages(paths: Sequence[Path], asked: SimpleNamespace) -> Iterator[str]:
    """Write pages of all verdicts, or a site of them where a path does not end in .md: from `out` if it was named, else
    judged again from the ledger, once for all pages. If claims were named, the pages have those alone, from `out`.
    Yields a line on each."""
    from normexp.claims.pages.verdicts_page import verdicts_in, write_page

    for path in paths:
        if path.is_dir() and (
            path.suffix == ".md" or not {"index.html", "claims"} <= {one.name for one in path.iterdir()}
        ):
            raise ValueError(
                f"page={path}: is a folder with other files; name a new one, or a file that ends in .md"
            )
    if named := asked.claim != "demo":
        chosen, left_out, _ = find(asked.claim, load_bank(asked.bank))
        for mistake in left_out:
            raise ValueError(mistake)
        claims = {claim.id: claim for claim in chosen}
    else:
        claims = load_claims(CONFIGS)
    if not named and asked.out == Path("outputs/claims"):
        from normexp.claims.conclude import judge_all_again

        verdicts = judge_all_again(claims)
    else:
        verdicts = verdicts_in(claims, asked.out)
    for path in paths:
        yield write_page(path, claims, verdicts)


def lines_of(claims: Collection[Claim]) -> Iterator[str]:
    """One line each."""
    width = max(len(claim.id) for claim in claims)
    for claim in claims:
        kind = "cannot be tested" if claim.evidence == "none" else claim.evidence
        yield f"  {claim.id:<{width}}  {claim.sentence} [{kind}]"


def find_claims(words: str) -> None:
    """Print the claims that have all of the words, by topic."""
    found = matching(load_each(CONFIGS)[0].values(), words)
    if not found:
        raise ValueError(
            f"find={words}: no claim has all of these words; fewer find more, and --help lists all claims"
        )
    for name in dict.fromkeys(map(topic, found)):
        print(name, *lines_of([claim for claim in found if topic(claim) == name]), sep="\n")
    print(f"judge one: {to_type('verify')} claim={found[0].id}")


def warn(mistakes: Iterable[str]) -> None:
    """Print mistakes in files that were not asked for. They stop nothing, but their author should know."""
    for mistake in mistakes:
        print(f"Warning: {mistake}", file=sys.stderr)


def command_of_one(asked: SimpleNamespace) -> str:
    """The command that reproduces one claim, without its id and tune=none."""
    own = asked.claim.endswith(ENDINGS) and "," not in asked.claim
    named = {"claim": shlex.quote(asked.claim) if own else "{id}"}
    named |= {"bank": asked.bank} if asked.bank != SMALL else {}
    named |= {key: str(value) for key in ("evidence", "registry") if (value := getattr(asked, key))}
    words = [f"{key}={value if key == 'claim' else shlex.quote(value)}" for key, value in named.items()]
    words += [f"allow_targets={asked.allow_targets}"] if asked.allow_targets else []
    words += [f"--config-dir {shlex.quote(asked.config_dir)}"] if asked.config_dir else []
    return " ".join([to_type("verify"), *words])
