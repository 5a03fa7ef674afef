"""Every configs/data/*.yaml: a target of this package, exactly its options, a comment for --help, neutral defaults."""

import inspect
from pathlib import Path

import pytest
import yaml
from refusals import refused

import normexp.data
from normexp.config.run_spec import specs

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "data").glob("*.yaml"))


@pytest.fixture(params=CONFIGS, ids=lambda path: path.stem)
def config(request) -> dict:
    return yaml.safe_load(request.param.read_text())


def target(config: dict) -> type:
    return getattr(normexp.data, config["_target_"].removeprefix("normexp.data."))


def test_keys_are_options_of_the_target_and_only_flip_may_be_left_out(config):
    options = inspect.signature(target(config)).parameters
    keys = config.keys() - {"_target_"}
    assert keys <= options.keys()
    assert options.keys() - keys <= {"flip"}  # digits and letters mirrored are other signs, or none


@pytest.mark.parametrize(
    "words",
    ["data.eval_batch_size=0", "data.split_seed=-1", "data.task_batches=0", "data.samples_per_class=0",
     "data=image_folder data.image_size=0", "model=gpt data=python_docs data.context_length=0"],
)  # fmt: skip
def test_an_option_out_of_its_limits_is_refused_in_one_line(words):
    *_, option = words.split()
    with refused(f"^{option}: must be at least [01]( or null)?$"):
        specs(words.split())
