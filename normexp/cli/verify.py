"""`normexp verify claim=S37`: name a claim, get a verdict with its evidence; `--help` lists all claims."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from normexp.claims.spec import select
from normexp.claims.spec.bank import SMALL
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, load_each
from normexp.cli.help import columns
from normexp.cli.words import HERE, Engine, Folder, Packages
from normexp.config.folder import CONFIGS as FOLDER
from normexp.config.options import installed
from normexp.config.process import BAD_INPUT, fast_imports, typed
from normexp.format import tell

CONFIGS = FOLDER / "claims"
OUT = Path("outputs/claims")
DEMO = (
    "sigmoid_gradients_vanish,batchnorm_relieves_sigmoid,layernorm_stabilizes_sigmoid,batchnorm_relu_explodes,"
    "pre_norm_stream_is_stable"
)


def names_in_lines() -> str:
    """Every claim in one line, for the help."""
    claims, _ = load_each(CONFIGS)
    return "\n".join(["Claims:", *lines_of(claims.values()), *columns(installed("claim"))])


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
            docs/findings.md; with out=DIR of the verdicts in DIR
    """
    if page:
        write_pages(list(map(Path, page.split(","))), out)
        return 0
    chosen, left_out = select.find(DEMO if claim == "demo" else claim, bank)
    if not engine.plan:
        out.mkdir(parents=True, exist_ok=True)
    with fast_imports():  # torch and Lightning take seconds to import
        from normexp.claims.verify import verify_all

    status = verify_all(
        chosen,
        out,
        command=typed(sys.argv),
        options=engine,
        evidence=ledger(evidence),
        registries=[registry] if registry else None,
    )
    for mistake in left_out:
        tell(f"Error: {mistake}", file=sys.stderr)
    return BAD_INPUT if left_out else status


def ledger(place: str) -> Path | None:
    """The folder of kept runs that an option names: that of the package, another one, or none."""
    from normexp.claims.evidence.table import EVIDENCE

    if place == "none":
        return None
    if place and not Path(place).is_dir():
        raise ValueError(f"evidence={place}: no such folder; name one with runs.parquet, or none")
    return Path(place) if place else EVIDENCE


def write_pages(paths: Sequence[Path], out: Path) -> None:
    """Write pages of verdicts: those in `out` if it was named, else of all claims, judged again from the kept runs."""
    from normexp.claims.conclude import judge_all_again
    from normexp.claims.pages.verdicts_page import verdicts_in, write_page

    claims = load_claims(CONFIGS)
    verdicts = judge_all_again(claims) if out == OUT else verdicts_in(claims, out)
    for path in paths:
        print(write_page(path, claims, verdicts), flush=True)


def lines_of(claims: Iterable[Claim]) -> list[str]:
    """One line each."""
    return columns({c.id: f"{c.sentence} [{c.evidence}]" for c in claims})
