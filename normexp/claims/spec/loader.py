"""How files of claims and of the bank are parsed."""

import yaml

# The same, eight times as fast, where PyYAML was built with libyaml.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
