"""What the benchmarks borrow from the tests: places for conversations, and the servers behind them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from places import NoServerError, open_store, start

__all__ = ["NoServerError", "open_store", "start"]
