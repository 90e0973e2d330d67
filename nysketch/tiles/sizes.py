"""How large tiles are."""

from __future__ import annotations

import numpy as np

# Rows of a tile: rows × landmarks × 4 bytes ≈ 256 KiB, so that tile and landmarks share an L2 cache of
# 1 MiB; at m = 1000, 128 rows were 20 % slower and 32 rows 5 %. With many features the landmarks
# themselves outgrow the cache and are fetched anew for every tile, which must then be tall to be worth it:
# the product at d = 1000 was 1.6 times as fast with 256 rows as with 64. Depends on m and d alone: the
# shape of a tile must not differ between machines.
TILE_BYTES = 1 << 18
_TALLEST_TILE = 2048


def tile_rows_for(m: int, d: int) -> int:
    """Return the rows of a tile."""
    rows = max(TILE_BYTES // (4 * m), min(d // 4, 256))
    return int(np.clip(rows // 16 * 16, 16, _TALLEST_TILE))
