"""`_target_`: what a configuration may name, judged before anything is imported. The hostile names are a table."""

import pickle
import sys

import pytest
from config.hostile import write_trap
from refusals import refused

from normexp.config.compose import compose
from normexp.config.folder import ALLOWED, allow_from, allowed_packages
from normexp.config.run_spec import resolved, specs
from normexp.config.targets import LIGHTNING, construct, resolve_target
from normexp.training.build import build

NOT_ALLOWED = "not a class of normexp, torch or Lightning"
# path, name, packages that are allowed, what is said
REFUSED = [
    ("model", 7, (), "model._target_=7: is no class; write package.module.Class"),
    ("model", "MLP", (), "is no class"),
    ("model", "normexp.models:MLP", (), "is no class"),
    ("model", "normexp.models.MLP\n", (), "is no class"),
    ("model", "normexp.models.MLP.__init__.__globals__", (), "is no class"),
    ("model", "normexp.модели.MLP", (), "is no class"),
    ("model", "this.s", (), r"add allow_targets=\[this\]"),
    ("model", "os.system", (), NOT_ALLOWED),
    ("model.module", "torch.nn.init.ones_", (), "model.path=torch.nn.init.ones_: not a class; functions"),
    ("monitor.x", "pandas.read_pickle", ("pandas",), "not a class; functions"),
    ("monitor.x", "torch.load", (), NOT_ALLOWED),
    ("monitor.x", "torch.load", ("torch",), "not a class; functions"),
    ("monitor.x", "torch.nn.Module.load_state_dict", (), "not a class; functions"),
    ("monitor.x", "torch.nn.modules.module.torch.load", (), "not a class; functions"),
    ("monitor.x", "torch.nn.os.system", (), "cannot be imported|not a class"),
    ("monitor.x", "torch.optim.optimizer.functools.partial", (), "is functools.partial, not a class of normexp"),
    ("data", "normexp.data.text.hashlib.sha256", (), "not a class"),
    ("data", "normexp.data.text.Path", (), "is pathlib.*, not a class of normexp"),
    ("data", "normexp.config.identity.json.JSONDecoder", (), "that a configuration may build"),
    ("model", "normexp.cli.train.run", (), "that a configuration may build"),
    ("monitor.x", "normexp.training.folder.RunFolder", (), "that a configuration may build"),
    ("monitor.x", "normexp.monitors.base.Logger", (), "not a class of normexp"),
    ("monitor.x", "lightning_fabric.loggers.csv_logs._ExperimentWriter", (), "that a configuration may build"),
    ("monitor.x", "pytorch_lightning.loggers.CSVLogger", (), "that a configuration may build"),
    ("trainer.profiler", "pytorch_lightning.profilers.SimpleProfiler", (), "that a configuration may build"),
    ("trainer.plugins[0]", "pytorch_lightning.plugins.io.TorchCheckpointIO", (), "that a configuration may build"),
    ("model", "normexp.norms.Norms", (), "cannot be imported"),
    ("model", "normexp.models.nothing.MLP", (), "cannot be imported"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "name", "allowed", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_target_is_refused_in_one_line(path, name, allowed, message, monkeypatch):
    monkeypatch.setenv(ALLOWED, ",".join(allowed))
    with pytest.raises(ValueError, match=message) as caught:
        resolve_target(path, name)
    assert len(str(caught.value).replace(str(name), "").splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("model", "normexp.models.MLP"),
        ("model", "torch.nn.Sequential"),
        ("model", "normexp.models.mlp.nn.Sequential"),  # allowed by its path and where it is defined
        ("model.weight_norm", "normexp.norms.WeightStandardization"),
        ("norm", "normexp.norms.layer_norm.LayerNorm"),
        ("data", "normexp.data.Digits"),
        ("optimizer", "torch.optim.RMSprop"),
        ("schedule", "normexp.schedules.Constant"),
        ("monitor.x", "normexp.monitors.Charts"),
        ("monitor.x", "pytorch_lightning.callbacks.LearningRateMonitor"),
        ("trainer.strategy", "pytorch_lightning.strategies.DDPStrategy"),
        ("trainer.plugins[0]", "pytorch_lightning.plugins.environments.LightningEnvironment"),
    ],
)
def test_target_is_found(path, name):
    assert resolve_target(path, name).__name__ == name.rpartition(".")[2]


def test_each_listed_part_of_lightning_is_a_class():
    assert all(isinstance(resolve_target("trainer.x", name), type) for name in LIGHTNING)


def test_name_is_judged_before_it_is_imported():
    modules = {"this", "antigravity", "turtle"}
    assert not modules & sys.modules.keys()
    for name in ("this.s", "antigravity.fly", "turtle.Turtle"):
        with refused("_target_"):
            resolve_target("model", name)
    assert not modules & sys.modules.keys()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the user's own, with a norm, a function, another kind of class, and another package's class."""
    (tmp_path / "own_norms").mkdir()
    (tmp_path / "own_norms" / "__init__.py").write_text(
        "import subprocess\n"
        "from fractions import Fraction\n"
        "from subprocess import Popen\n"
        "from normexp.norms import LayerNorm\n"
        "class Mine(LayerNorm): pass\n"
        "class Callable:\n    def __call__(self, module): return module\n"
        "def make(num_features, channel_dim, layer): raise AssertionError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_norms"
    sys.modules.pop("own_norms", None)


def test_own_class_is_built_where_the_command_line_allows_its_package(package):
    overrides = ["model.width=8", f"norm._target_={package}.Mine"]
    with refused(r"add allow_targets=\[own_norms\] to the command line"):
        specs(overrides)
    words = [*overrides, f"allow_targets=[{package}]"]
    allow_from(words)
    norms = [site.module for site in build(*specs(words)).module.model.sites() if site.kind == "norm"]
    assert {type(norm).__name__ for norm in norms} == {"Mine"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_norms.make", "not a class; functions and objects are not built"),
        ("own_norms.Popen", r"is subprocess.Popen, not a class of normexp.*allow_targets=\[subprocess\]"),
        ("own_norms.subprocess.Popen", "is subprocess.Popen, not a class"),
        ("own_norms.Fraction", "is fractions.Fraction, not a class"),
        ("own_norms.Absent", "cannot be imported"),
        ("own_norms_too.Mine", "not a class of normexp, torch or Lightning"),
    ],
)
def test_an_allowed_package_gives_its_own_classes_of_that_kind_alone(package, name, message):
    allow_from([f"allow_targets=[{package}]"])
    with refused(message):
        resolve_target("norm", name)
    assert resolve_target("norm", "own_norms.Mine").__name__ == "Mine"


def test_a_package_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "own_broken.py").write_text("raise RuntimeError('no\\nlicense')\n")
    monkeypatch.syspath_prepend(tmp_path)
    allow_from(["allow_targets=[own_broken]"])
    with refused(r"own_broken\.Norm: cannot be imported \(no license\)"):
        resolve_target("norm", "own_broken.Norm")


@pytest.mark.parametrize(
    ("arguments", "packages"),
    [
        ([], ()),
        (["norm=layernorm"], ()),
        (["allow_targets=[]"], ()),
        (["allow_targets=[mine]"], ("mine",)),
        (["allow_targets=[mine, 'other.part']"], ("mine", "other.part")),
        (["++allow_targets=[mine]", "+allow_targets=[other]"], ("mine", "other")),
        (["hydra.sweeper.params.allow_targets=[mine]"], ()),
        (["allow_targets"], ()),
    ],
)
def test_packages_of_a_command_line(arguments, packages, monkeypatch):
    monkeypatch.setenv(ALLOWED, "of.another.command")
    allow_from(arguments)
    assert allowed_packages() == packages


@pytest.mark.parametrize("value", ["[${x}]", "[a/b]", "[.a]", "[a b]", "{a: b}"])
def test_what_names_no_package_is_one_line(value, monkeypatch):
    monkeypatch.setenv(ALLOWED, "")
    with refused(r"is no package; write allow_targets=\[my_package\]"):
        allow_from([f"allow_targets={value}"])
    assert allowed_packages() == ()


def test_a_configuration_cannot_allow_itself_a_package():
    with refused(r"allow_targets=\['pandas'\]: no file can allow a package"):
        resolved(compose(["allow_targets=[pandas]"])[0])
    allow_from(["allow_targets=[pandas]"])
    assert resolved(compose(["allow_targets=[pandas]"])[0])["allow_targets"] == ["pandas"]


def test_construct_builds_nothing_that_was_not_judged(tmp_path):
    trap = write_trap(tmp_path / "trap.pkl", tmp_path / "sprung")
    node = {"_target_": "pandas.read_pickle", "filepath_or_buffer": str(trap)}
    for hidden in (node, [node], {"a": {"b": node}}, {"_target_": "torch.nn.Linear", "in_features": node}):
        with refused(r"_target_=pandas\.read_pickle: not a class"):
            construct("monitor.x", hidden)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(trap.read_bytes())  # the trap is a real one
    assert (tmp_path / "sprung").exists()
