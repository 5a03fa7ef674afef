"""`normexp verify claim=S37`: a verdict with its evidence; and `normexp register`: a protocol before its first run."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.claims.spec.bank import SMALL
from normexp.claims.spec.find import find, load_claims, load_each
from normexp.cli.help import columns
from normexp.cli.words import HERE, Engine, Folder, Packages
from normexp.config.folder import CONFIGS as FOLDER
from normexp.config.options import installed
from normexp.config.process import BAD_INPUT, fast_imports, typed
from normexp.format import tell

if TYPE_CHECKING:
    from normexp.claims.evidence.registry import Row

CONFIGS = FOLDER / "claims"
OUT = Path("outputs/claims")
BANK = "bank"  # the word, and the subject, of a bank's own row
DEMO = (
    "sigmoid_gradients_vanish,batchnorm_relieves_sigmoid,layernorm_stabilizes_sigmoid,batchnorm_relu_explodes,"
    "pre_norm_stream_is_stable"
)


def claims_in_lines() -> str:
    """Every claim in one line, for the help."""
    claims, _ = load_each(CONFIGS)
    rows = {claim.id: f"{claim.sentence} [{claim.evidence}]" for claim in claims.values()}
    return "\n".join(["Claims:", *columns(rows), *columns(installed("claim"))])


def verify(
    *,
    claim: str = "demo",
    out: Path = OUT,
    bank: str = SMALL,
    evidence: str = "",
    registry: Path | None = None,
    page: str = "",
    config_dir: Folder = "",
    allow_targets: Packages = "",
    engine: Engine = HERE,
) -> int:
    """Name a claim about normalization, get a verdict with its evidence.

    - `normexp verify`: the initialization laboratory, what depth does, in under a minute
    - `normexp verify claim=S37`
    - `normexp verify claim=mine.yaml bank=cells.yaml`: a claim of your own, over settings of your own
    - `normexp verify claim=P10 bank=gpu --plan`: what would be trained in settings of the size of papers
    - `normexp verify claim=2503.10622`: all claims whose source is the paper with this arXiv id

    A verdict is a word or a count of settings; each is a result, so the exit status is 0. Flags of
    sweeps (--plan, --workers 4, --place slurm, ...; docs/sweeps.md) say where runs are trained.

    Args:
        claim: an id, a name, the arXiv id of a paper, several with commas, a glob ('S3*'), law, initialization,
            training, all, or a file of your own (docs/claims.md says what stands in it)
        out: where ID/verdict.json goes
        bank: the settings: a name such as gpu, or a file of settings of your own
        evidence: none trains all runs here; else those of docs/evidence count, which comes with the package, or those
            of another such folder
        registry: where the claims' rows stand, else registry.jsonl here (normexp register)
        page: judge all again from the evidence and write this page, docs/verdicts.md; with a comma also
            docs/findings.md
    """
    if page:
        write_pages(list(map(Path, page.split(","))))
        return 0
    chosen, left_out = find(DEMO if claim == "demo" else claim, bank)
    kept = ledger(evidence)
    if not engine.plan:
        out.mkdir(parents=True, exist_ok=True)
    with fast_imports():  # torch and Lightning take seconds to import
        from normexp.claims.verify import verify_all

    registries = [registry] if registry else None
    command = typed(sys.argv)
    status = verify_all(chosen, out, command=command, options=engine, evidence=kept, registries=registries)
    for mistake in left_out:
        tell(f"Error: {mistake}", file=sys.stderr)
    return BAD_INPUT if left_out else status


def ledger(named: str) -> Path | None:
    """The folder of kept runs that an option names: that of the package, another one, or none."""
    from normexp.claims.evidence.table import EVIDENCE

    if named == "none":
        return None
    if named and not Path(named).is_dir():
        raise ValueError(f"evidence={named}: no such folder; name one with runs.parquet, or none")
    return Path(named) if named else EVIDENCE


def write_pages(paths: Sequence[Path]) -> None:
    """Write pages of verdicts of all claims, judged again from the kept runs."""
    from normexp.claims.conclude import judge_all_again
    from normexp.claims.pages.findings import write_findings
    from normexp.claims.pages.verdicts import write_verdicts

    for path in paths:
        if path.suffix != ".md":
            raise ValueError(f"page={path}: must end in .md, such as docs/verdicts.md or docs/findings.md")
    claims = load_claims(CONFIGS)
    verdicts = judge_all_again(claims)
    for path in paths:
        write = write_findings if path.stem == "findings" else write_verdicts
        print(write(path, claims, verdicts), flush=True)


def register(
    *,
    claim: str = "",
    reason: str = "",
    bank: str = SMALL,
    registry: Path | None = None,
    config_dir: Folder = "",
    allow_targets: Packages = "",
) -> None:
    """Fix the protocol of a claim before its first run, in the registry.

    - `normexp register`: list the rows
    - `normexp register claim=P10 reason="first protocol"`: add a row
    - `normexp register claim=mine.yaml bank=cells.yaml reason=...`: a claim of your own, over settings of your own
    - `normexp register claim=bank bank=cells.yaml reason=...`: the grid of a bank
    - `normexp register claim=all bank=drawn reason=...`: every claim over a drawn bank, after the bank's own rows

    Commit the registry, the claim and the bank to your git repository before the runs start. An amendment of a
    registered protocol is judged at 5%/2, the next at 5%/4, with seeds that no earlier row had. docs/claims.md says
    what this proves and what it cannot.

    Args:
        claim: an id, a name, several with commas, a glob, or a file of yours; bank: the grid of the bank itself
        reason: why the protocol is as it is, or why it changed
        bank: a name, or a file of settings of your own; of a population, with the lengths and rates that pilots found
        registry: default: ./registry.jsonl, or in a checkout of normexp docs/evidence/registry.jsonl
    """
    from normexp.claims.evidence import registry as rows
    from normexp.claims.evidence.disk import complete_cells
    from normexp.claims.evidence.registry import protocol_of, protocol_of_bank, seeds_of
    from normexp.claims.spec.bank import load_bank

    path = registry or rows.default_registry()
    if not claim and bank == SMALL:
        tell(*(list(map(line, rows.read_registry(path))) or [f"{path}: no row yet"]))
        return
    if not reason:
        raise ValueError("reason=: is missing; say why the protocol is as it is, or why it changed")
    if claim in (BANK, ""):
        known = load_bank(bank)
        subject = rows.subject_of(BANK, known.name)
        protocols = [(subject, protocol_of_bank(known), [[0, max(known.seeds, 1)]])]
    else:
        chosen, left_out = find(claim, bank)
        for mistake in left_out:
            raise ValueError(mistake)
        for one in chosen:
            if one.evidence not in ("training", "initialization"):
                raise ValueError(
                    f"claim={one.id}: evidence={one.evidence} needs no registration; leave it out"
                )
        claims = map(complete_cells, chosen)
        protocols = [(rows.subject_of(one.id, one.bank), protocol_of(one), seeds_of(one)) for one in claims]
    for subject, protocol, seeds in protocols:
        tell(line(rows.register(path, subject=subject, protocol=protocol, reason=reason, seeds=seeds)))
    tell(f"commit {path} before the runs start")


def line(row: "Row") -> str:
    """One row of the registry as a line of text."""
    seeds = ", ".join(f"{first} to {end - 1}" for first, end in row.seeds)
    what = f"{row.subject} {row.protocol[:12]} on {row.date}, alpha {row.alpha:g}, seeds {seeds}"
    return f"row {row.number}: {what}: {row.reason}"
