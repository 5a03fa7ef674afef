"""A decision between norms, or anything else: of results that exist, `normexp.compare(table, value="mAP", margin=0.3)`,
or of a training, which adds seeds in planned looks. The judge of claims decides both.

The package is called as a function; see `normexp.compare.results.compare`.
"""

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normexp.compare.answer import Answer


class Compare(types.ModuleType):
    """The package as it is called."""

    def __call__(self, data: Any, **options: Any) -> "Answer":
        """Judge results that exist; see `normexp.compare.results.compare`."""
        from normexp.compare.results import compare

        return compare(data, **options)


sys.modules[__name__].__class__ = Compare
