"""Name a claim, get a verdict with its evidence: `normexp verify claim=S37`; `--help` lists all claims."""

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from normexp.claims.spec.bank import SMALL
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, load_each
from normexp.claims.spec.select import ENDINGS, arxiv_id, find, matching
from normexp.cli.command import command
from normexp.cli.help import columns
from normexp.config.folder import CONFIGS as FOLDER
from normexp.config.options import installed
from normexp.config.process import BAD_INPUT, fast_imports
from normexp.config.process import command as to_type

CONFIGS = FOLDER / "claims"
DEMO = (
    "sigmoid_gradients_vanish,batchnorm_relieves_sigmoid,layernorm_stabilizes_sigmoid,batchnorm_relu_explodes,"
    "pre_norm_stream_is_stable"
)


def claims_in_lines() -> str:
    """Every claim in one line, for the help; files that cannot be read are said."""
    claims, broken = load_each(CONFIGS)
    warn(broken.values())
    return "\n".join(["Claims:", *lines_of(claims.values()), *columns(installed("claim"))])


@command("verify", more=claims_in_lines)
def main(args: SimpleNamespace) -> int:
    """Judge the claims that the words name. Returns the exit status, which is 0 for any verdict."""
    for word in args.others:
        if not arxiv_id(word):
            raise ValueError(f"{word}: write key=value, such as claim={word}; --help explains")
        args.claim = word
    if args.find:
        find_claims(args.find)
        return 0
    if args.page:
        for line in write_pages([Path(name) for name in args.page.split(",")], args):
            print(line, flush=True)
        return 0
    words = DEMO if args.claim == "demo" else args.claim
    chosen, left_out, others = find(words, args.bank)
    warn(others)
    if args.bank != SMALL:
        warn(without_settings(args.bank, chosen))
    if not args.engine.plan:
        args.out.mkdir(parents=True, exist_ok=True)
    if sum(claim.evidence == "training" for claim in chosen) > 1:
        print(f"looking for finished runs in {args.out / 'cache'}", flush=True)
    with fast_imports():  # torch and Lightning take seconds to import
        from normexp.claims.verify import verify_all

    status = verify_all(
        chosen,
        args.out,
        command=command_of_one(args),
        options=args.engine,
        evidence=ledger(args.evidence),
        registries=[args.registry] if args.registry else None,
    )
    for mistake in left_out:
        print(f"Error: {mistake}", file=sys.stderr)
    return BAD_INPUT if left_out else status


def without_settings(bank: str, chosen: list[Claim]) -> list[str]:
    """A line on the claims that a bank does not change. Raises ValueError if those are all."""
    fixed = [claim.id for claim in chosen if not claim.settings]
    if not fixed:
        return []
    names = ", ".join(fixed[:5]) + (", ..." if len(fixed) > 5 else "")
    line = f"bank={bank}: changes nothing of {names}, which has no `settings`"
    if len(fixed) == len(chosen):
        raise ValueError(f"{line}; leave bank= out, or write `settings` into the file of the claim")
    return [line]


def ledger(place: str) -> Path | None:
    """The folder of kept runs that an option names: that of the package, another one, or none."""
    from normexp.claims.evidence.table import EVIDENCE

    if place == "none":
        return None
    if place and not Path(place).is_dir():
        raise ValueError(f"evidence={place}: no such folder; name one with runs.parquet, or none")
    return Path(place) if place else EVIDENCE


def write_pages(paths: Sequence[Path], args: SimpleNamespace) -> Iterator[str]:
    """Write pages of all verdicts, or a site of them where a path does not end in .md: from `out` if it was named, else
    judged again from the ledger, once for all pages. If claims were named, the pages have those alone, from `out`.
    Yields a line on each."""
    from normexp.claims.pages.verdicts_page import verdicts_in, write_page

    for path in paths:
        files = {file.name for file in path.iterdir()} if path.is_dir() else None
        if files is not None and (path.suffix == ".md" or (files and not {"index.html", "claims"} <= files)):
            raise ValueError(
                f"page={path}: is a folder with other files; name a new one, or a file that ends in .md"
            )
    if some_named := args.claim != "demo":
        chosen, left_out, _ = find(args.claim, args.bank)
        for mistake in left_out:
            raise ValueError(mistake)
        claims = {claim.id: claim for claim in chosen}
    else:
        claims = load_claims(CONFIGS)
    if not some_named and args.out == Path("outputs/claims"):
        from normexp.claims.conclude import judge_all_again

        verdicts = judge_all_again(claims)
    else:
        verdicts = verdicts_in(claims, args.out)
    for path in paths:
        yield write_page(path, claims, verdicts)


def lines_of(claims: Iterable[Claim]) -> list[str]:
    """One line each."""
    kinds = {"none": "cannot be tested"}
    return columns({c.id: f"{c.sentence} [{kinds.get(c.evidence, c.evidence)}]" for c in claims})


def find_claims(words: str) -> None:
    """Print the claims that have all of the words."""
    matches = matching(load_each(CONFIGS)[0].values(), words)
    if not matches:
        raise ValueError(
            f"find={words}: no claim has all of these words; fewer find more, and --help lists all claims"
        )
    print(*lines_of(matches), sep="\n")
    print(f"judge one: {to_type('verify')} claim={matches[0].id}")


def warn(mistakes: Iterable[str]) -> None:
    """Print mistakes in files that were not asked for. They stop nothing, but their author should know."""
    for mistake in mistakes:
        print(f"Warning: {mistake}", file=sys.stderr)


def command_of_one(args: SimpleNamespace) -> str:
    """The command that reproduces one claim, without its id."""
    is_file = args.claim.endswith(ENDINGS) and "," not in args.claim
    options = {"claim": shlex.quote(args.claim) if is_file else "{id}"}
    options |= {"bank": args.bank} if args.bank != SMALL else {}
    options |= {key: str(value) for key in ("evidence", "registry") if (value := getattr(args, key))}
    words = [f"{key}={value if key == 'claim' else shlex.quote(value)}" for key, value in options.items()]
    words += [f"allow_targets={args.allow_targets}"] if args.allow_targets else []
    words += [f"--config-dir {shlex.quote(args.config_dir)}"] if args.config_dir else []
    return " ".join([to_type("verify"), *words])
