"""A checkpoint that was changed and sealed again: what it has finished must be what its sums hold."""

import numpy as np
import pytest

from tests.helpers import canonical, seal, unseal
from tests.promises.attacks.fuzz_checkpoints import FRAGMENTS, ROWS, command_of, interrupted
from tests.promises.attacks.outcomes import command


@pytest.fixture
def pass_of_three(tmp_path):
    """Return a command, its output, and the checkpoint of three of its six fragments."""
    content, _ = interrupted(tmp_path)
    output, args = command_of(tmp_path)
    output.unlink()
    return args, output, content


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ([1] * FRAGMENTS, f"its finished fragments have {ROWS} rows, and its sums {ROWS // 2}"),
        ([0] * FRAGMENTS, f"its finished fragments have 0 rows, and its sums {ROWS // 2}"),
        ([0] * 10 + [1] * 3, "of 3 finished fragments, 0 exist"),
    ],
)
def test_fragments_that_are_called_finished_add_up_to_the_rows(pass_of_three, done, said):
    args, output, content = pass_of_three
    checkpoint = output.with_name("s.nysk.checkpoint")
    _, metadata, arrays = unseal(content)
    assert np.unpackbits(arrays["done"]).sum() == FRAGMENTS // 2
    checkpoint.write_bytes(seal(canonical(metadata), arrays | {"done": np.packbits(np.array(done, bool))}))
    code, _, message = command(*args)
    assert code == 5 and not output.exists()
    assert message.startswith(f"{checkpoint}: unusable checkpoint: {said}")
