#!/bin/bash
# Train a drawn bank in the background, in a clean worktree on a branch of its own:
#   git worktree add ../bank -b bank && cd ../bank && nohup nice scripts/train_bank.sh drawn >> ../bank.log 2>&1 &
# The row of the population must stand in the registry. The same command goes on after any interruption, and commits
# after every setting. When the pilots are finished it registers what they found, then it trains the grid. Merge that
# row before others are added: every row holds the hash of the one before it. More words go to `normexp evidence`.
set -u
bank=${1:-drawn}
shift
registry=docs/evidence/registry.jsonl
normexp=${NORMEXP:-normexp}
export OMP_NUM_THREADS=1

commit() { # what a step wrote, if it wrote anything
    git add -- configs/bank docs/evidence && { git diff --cached --quiet || git commit -q -m "$1"; }
}

each() { # setting after setting; three failures in a row end it
    tries=0
    while [ $tries -lt 3 ]; do
        $normexp evidence "$1" bank="$bank" settings=1 "${@:2}"
        status=$?
        commit "Train the $1 of another setting of bank $bank" || exit 1
        [ $status = 0 ] && return
        if [ $status = 75 ]; then tries=0; else tries=$((tries + 1)); fi
    done
    exit $status
}

grep -q "\"population $bank\"" $registry || { echo "register the population first: normexp register bank=$bank"; exit 1; }
commit "Keep what was trained of bank $bank before an interruption"
[ -z "$(git status --porcelain)" ] || { echo "the checkout has other changes; evidence needs a clean one"; exit 1; }
if ! grep -q "\"bank $bank\"" $registry; then
    each pilot "$@"
    $normexp register bank="$bank" reason="the lengths and rates that its pilots found" || exit 1
    commit "Register the lengths and rates of bank $bank" || exit 1
fi
each grid "$@"
