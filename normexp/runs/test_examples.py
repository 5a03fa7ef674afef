"""`test_examples.npz`: the loss of a run on each test example, and whether its answer was right.

A bootstrap over test examples needs these numbers and nothing else of a run.
"""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.runs.files import atomic_write
from normexp.runs.summary import damaged

if TYPE_CHECKING:  # numpy takes a tenth of a second to import, and reading a summary does not need it
    import numpy as np

TEST_EXAMPLES = "test_examples.npz"


@dataclass(frozen=True, eq=False)
class TestExamples:
    """The final weights on each test example, in the order of the test split.

    Attributes:
        right: bool, (N,) for images; (N, T) for windows of a text, one answer per token.
        loss: cross-entropy in nats, float32 (N,); for a window, the mean over its tokens.
        test_set: digest of the examples and their order. Runs with the same digest can be compared example by example.
            Empty if the data has no digest.
    """

    __test__ = False  # tells pytest that this is no test

    right: "np.ndarray"
    loss: "np.ndarray"
    test_set: str


def write_test_examples(folder: Path, examples: TestExamples) -> None:
    """Write the file whole or not at all. `right` takes one bit per answer (10,000 answers: 1.25 KB)."""
    import numpy as np

    with atomic_write(folder / TEST_EXAMPLES) as file:
        np.savez_compressed(
            file,
            right=np.packbits(examples.right),
            shape=np.array(examples.right.shape),
            loss=examples.loss.astype(np.float32),
            test_set=np.array(examples.test_set),
        )


def load_test_examples(folder: str | Path) -> TestExamples | None:
    """The test examples of a run; None if it kept none, such as a run of an earlier version.

    Raises ValueError with one line for a file that cannot be read or was cut.
    """
    import numpy as np

    path = Path(folder) / TEST_EXAMPLES
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            shape = tuple(kept["shape"].tolist())
            right = np.unpackbits(kept["right"], count=int(np.prod(shape))).astype(bool).reshape(shape)
            examples = TestExamples(right, kept["loss"], str(kept["test_set"]))
        if len(examples.loss) != len(right):
            raise ValueError(f"{len(examples.loss)} losses of {len(right)} examples")
        return examples
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise damaged(path, reason, path.parent) from None
