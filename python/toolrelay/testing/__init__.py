"""What every store must do, as cases to run against one of your own (contract 7.10).

With pytest, for a store that several processes can open:

    from functools import partial

    import pytest
    from toolrelay.testing import StoreCase, store_conformance

    @pytest.mark.parametrize("case", store_conformance(processes=True), ids=str)
    def test_my_store(case: StoreCase, tmp_path) -> None:
        case(partial(MyStore, tmp_path / "conversations.db"))

A store that lives in one object, and is gone with its process:

>>> from toolrelay import MemoryStore
>>> for case in store_conformance():
...     store = MemoryStore()
...     case(lambda: store)

The stores of this package pass the same cases.
"""

from __future__ import annotations

from toolrelay.testing import _kept, _kills, _listings, _outcomes, _races, _workers
from toolrelay.testing._case import OpenStore, StoreCase

__all__ = ["OpenStore", "StoreCase", "store_conformance"]


def store_conformance(*, processes: bool = False) -> list[StoreCase]:
    """The cases, each a promise that a store makes.

    With `processes=True` there are more of them, in which processes that use the store are killed: for a store that
    outlives its process, and whose `open_store` can be pickled (a `functools.partial` of its class, say).
    """
    modules = [_kept, _races, _listings, _outcomes, _workers, *([_kills] if processes else [])]
    return [case for module in modules for case in module.CASES]
