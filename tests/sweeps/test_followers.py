"""Cells that differ only in plain values equal what Hydra composes and OmegaConf resolves for each."""

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from hydra_plugins.normexp._cells import Cells
from hydra_plugins.normexp._followers import Followers
from normexp.build import each_run
from normexp.config.folder import CONFIGS


@pytest.fixture(scope="module")
def hydra():
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        yield GlobalHydra.instance().config_loader(), compose("train", return_hydra_config=True)


@pytest.mark.parametrize(
    "jobs",
    [
        [["norm=batchnorm", f"seed={seed}", f"lr={lr}"] for seed in (0, 7) for lr in (0.1, 1, 2.5)],
        [
            ["model=transformer", f"model.width={width}", f"eps={eps}"]
            for width in (16, 32)
            for eps in (1e-5, 1e-3)
        ],
        [[f"batch_size={size}", "data.train_size=null"] for size in (2, 64)]
        + [["data.train_size=64", "batch_size=8"]],
        [["name=a", "outputs=x"], ["name=b", "outputs='x y'"]],
        [["replicas=3", "seed=0"], ["replicas=1", "seed=1"], ["replicas=2", "seed=2"]],
        [["norm.correction=0"], ["norm.correction=1"], ["norm.affine=frozen"]],
    ],
)
def test_cells_follow_to_what_each_is_by_itself(hydra, jobs):
    cells = Cells(*hydra, jobs)
    for index in range(len(jobs)):
        alone = [config for _, config in each_run(cells.task(index))]
        assert cells.runs(index) == alone
        assert cells.runs(index) == alone  # now that others were resolved


def test_following_changes_no_other_cell(hydra):
    cells = Cells(*hydra, [[f"seed={seed}"] for seed in range(3)])
    first = cells.runs(0)[0]
    before = str(first)
    cells.runs(1)[0]
    cells.runs(2)[0]["data"]["seed"] = 99
    assert str(first) == before
    assert cells.runs(1)[0]["data"]["seed"] == 1


@pytest.mark.parametrize(
    ("values", "message"), [(["seed=0", "seed=-1"], "seed=-1: must be at least 0"), (["lr=0.1", "lr=-1"], "lr=-1"),
                            (["batch_size=2", "batch_size=0"], "batch_size=0: must be at least 1"),
                            (["eps=0.1", "eps=no"], "eps=.no.: must be a number")],
)  # fmt: skip
def test_wrong_value_of_a_later_cell_is_found(hydra, values, message):
    cells = Cells(*hydra, [[value] for value in values])
    cells.runs(0)
    cells.runs(0)
    with pytest.raises(ValueError, match=message):
        cells.runs(1)


def test_nothing_follows_where_a_resolver_could_make_anything_of_a_value(hydra):
    task = Cells(*hydra, [["name=${oc.env:HOME,x}"]]).task(0)
    task.outputs = "${oc.env:${name},x}"
    assert Followers.find(task, {}, (("name", "a"),)) is None
    part = Cells(*hydra, [["outputs=a"]]).task(0)
    part.name = "${outputs}-b"
    assert Followers.find(part, {}, (("outputs", "a"),)) is None
