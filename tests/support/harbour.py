"""The tools of the tests: two that the host executes, some that run here."""

from toolrelay import ToolContext, Toolkit, define_tool, pending, relay_tool

TIDE = relay_tool("tide", "high water", {"type": "object", "properties": {"port": {"type": "string"}}})
MOOR = relay_tool("moor", "moors a boat")
RAN: list[str] = []
"""What ran, in order; emptied before each test."""


@define_tool
async def tally(n: int = 1) -> int:
    """Counts."""
    return n + 6


@define_tool
async def save() -> str:
    """Has an effect."""
    RAN.append("save")
    return "saved"


@define_tool
async def pay(context: ToolContext, amount: int = 30) -> object:
    """Pays when somebody agrees."""
    RAN.append("pay" if context.answer is None else f"pay after {context.answer.ok}")
    if context.answer is None:
        return pending("approval", f"Pay {amount} EUR?", {"amount": amount}, url="https://example.org/pay")
    return f"paid {amount}, said {(context.answer.data or {}).get('by')}"


HARBOUR = Toolkit([TIDE, MOOR, tally, save, pay])
NO_TOOLS = Toolkit()
