"""Recipes: how each model is trained unless the command says otherwise."""

import pytest
import yaml

from normexp.claims.evidence.initial import plain
from normexp.config.compose import compose
from normexp.config.folder import CONFIGS
from normexp.config.identity import recipe_overrides
from normexp.config.run_spec import resolved

MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
RECIPES = sorted(path.stem for path in (CONFIGS / "recipe").glob("*.yaml"))


def config_of(*overrides: str) -> tuple[dict, dict]:
    cfg, choices = compose(list(overrides))
    return resolved(cfg), choices


@pytest.mark.integration
@pytest.mark.parametrize("model", MODELS)
def test_each_model_trains_by_its_own_recipe(model):
    path = ["model.path=normexp.models.MLP"] if model == "module" else []
    config, choices = config_of(f"model={model}", *path)
    assert config["recipe"] == choices["recipe"] == model


@pytest.mark.integration
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_fits_every_model_and_writes_its_own_name(recipe):
    written = yaml.safe_load((CONFIGS / "recipe" / f"{recipe}.yaml").read_text())
    config, _ = config_of("model=cnn", f"recipe={recipe}")
    assert config["recipe"] == written["recipe"] == recipe
    assert config["max_epochs"] == written.get("max_epochs", 10)


@pytest.mark.integration
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("path", sorted((CONFIGS / "recipe" / "fast").glob("*.yaml")), ids=lambda p: p.stem)
def test_another_optimizer_trains_at_its_own_values_in_the_fast_recipe(path, optimizer):
    _, model, data = path.stem.split("_", 2)
    config, _ = config_of(f"model={model}", f"data={data}", "recipe=fast", f"optimizer={optimizer}")
    written = yaml.safe_load((CONFIGS / "optimizer" / f"{optimizer}.yaml").read_text())
    assert config["lr"] == written["lr"]
    assert config["optimizer"]["weight_decay"] == written["optimizer"]["weight_decay"]


@pytest.mark.integration
@pytest.mark.parametrize("path", sorted((CONFIGS / "recipe" / "rate").glob("*.yaml")), ids=lambda p: p.stem)
def test_rate_of_a_recipe_holds_for_its_optimizer_alone(path):
    recipe, _, optimizer = path.stem.rpartition("_")
    written = yaml.safe_load(path.read_text())
    assert written.keys() == {"lr"}, "a rate is all that stands here"
    assert config_of(f"recipe={recipe}", f"optimizer={optimizer}")[0]["lr"] == written["lr"]
    for other in {"sgd", "adam", "adamw"} - {optimizer}:
        own = yaml.safe_load((CONFIGS / "optimizer" / f"{other}.yaml").read_text())["lr"]
        assert config_of(f"recipe={recipe}", f"optimizer={other}")[0]["lr"] == own


def test_no_recipe_sets_what_belongs_to_an_optimizer():
    for recipe in RECIPES:
        written = yaml.safe_load((CONFIGS / "recipe" / f"{recipe}.yaml").read_text())
        assert not written.keys() & {"lr", "optimizer", "model", "norm", "data", "seed"}, recipe


def test_a_run_says_which_of_its_words_change_the_recipe():
    words = ["optimizer=sgd", "lr=0.3", "norm=batchnorm", "schedule.warmup_steps=5", "seed=4", "trainer=bf16"]
    assert recipe_overrides(words) == ["optimizer=sgd", "lr=0.3", "schedule.warmup_steps=5"]


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml")))
def test_experiments_set_their_own_training(name):
    config, choices = config_of(f"experiment={name}")
    written = yaml.safe_load((CONFIGS / "experiment" / f"{name}.yaml").read_text())
    assert config["recipe"] == "plain"
    assert config["max_epochs"] == written["max_epochs"]
    chosen = {key: value for item in written["defaults"] for key, value in item.items()}
    assert choices["optimizer"] == chosen.get("override /optimizer", "sgd")
    assert config["lr"] == written.get("lr", {"sgd": 0.1}.get(choices["optimizer"], 0.001))


def test_a_claim_names_its_recipe_or_is_plain():
    assert plain(("model=resnet",))["recipe"] == "plain"
    assert plain(("model=resnet", "recipe=resnet"))["recipe"] == "resnet"


def test_a_model_of_ones_own_may_name_no_recipe_or_take_one(tmp_path):
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# mine\n_target_: normexp.models.MLP\n_partial_: true\n")
    (tmp_path / "model" / "deeper.yaml").write_text("# deeper\ndefaults: [resnet, _self_]\ndepth: 32\n")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        search = f"hydra.searchpath=[file://{tmp_path}]"
        plain = hydra_compose("train", overrides=[search, "model=mine"])
        assert (plain.recipe, plain.lr, plain.max_epochs) == ("plain", 0.1, 10)
        assert hydra_compose("train", overrides=[search, "model=mine", "recipe=cnn"]).recipe == "cnn"
        deeper = hydra_compose("train", overrides=[search, "model=deeper"])
        assert (deeper.recipe, deeper.model.depth) == ("resnet", 32)
