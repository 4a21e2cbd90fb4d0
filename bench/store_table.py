"""The tables of the stores: which figures, what they are held to, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator

import table
from store_costs import LARGE_RESULT_BYTES, RESULT_BYTES, Figures

HALTS = (
    "halt + resume",
    "messages",
    "CPU, us",
    "no store, us",
    "floor, us",
    "bytes written",
    "floor, bytes",
    "x new content",
    "round trips",
)
FACTS = ("conversations in stores", "figure", "aim", "met")


def render(measured: Figures) -> str:
    """Both tables, and what is not in them."""
    halts = table.render(HALTS, [halts_row(one) for one in measured["halts"]])
    return "\n\n".join([halts, table.render(FACTS, list(facts(measured))), *measured["absent"]])


def halts_row(one: Figures) -> list[str]:
    """A store at one length."""
    store, floor, without = one["store"], one["floor"] or {}, one["without"]
    written = store.get("bytes_written")
    large = f", result of {LARGE_RESULT_BYTES >> 10} KB" if one["result_bytes"] == LARGE_RESULT_BYTES else ""
    return [
        one["kind"] + large,
        f"{one['messages']:,}",
        table.number(store["cpu_us"]),
        table.number(without["cpu_us"]),
        table.number(floor.get("cpu_us")),
        table.number(written),
        table.number(floor.get("bytes_written")),
        table.number(written and written / without["new_bytes"]),
        table.number(store.get("round_trips")),
    ]


def facts(measured: Figures) -> Iterator[list[str]]:
    """Everything else, a figure a line."""
    sqlite = {one["messages"]: one for one in measured["halts"] if is_small(one, "sqlite")}
    shortest, longest = sqlite[min(sqlite)], sqlite[max(sqlite)]
    written = [one["store"]["bytes_written"] for one in (shortest, longest)]
    most, fewest = f"{longest['messages']:,}", shortest["messages"]
    yield line(f"SQLite, halt + resume, {most} messages: us", longest["store"]["cpu_us"], table.at_most(1000))
    new = longest["without"]["new_bytes"]
    yield line(f"SQLite, bytes written, {most} messages: x new content", written[1] / new, table.at_most(2, "x"))
    ratio = written[1] / written[0]
    yield line(f"SQLite, bytes written, {most} messages: x those at {fewest}", ratio, table.at_most(1.2, "x"))
    for name, how in (("restored", "put in whole"), ("grown", "grown by 250 halts")):
        size = measured["sizes"][name]
        title = f"SQLite, {most} messages {how}: on disk, x JSON"
        yield line(title, size["disk_bytes"] / size["json_bytes"], table.at_most(2, "x"))
    yield from parked_facts(measured["parked"])
    for one in measured.get("resumes", ()):
        who = f"PostgreSQL, {one['workers']} " + ("worker" if one["workers"] == 1 else "workers")
        yield line(f"{who}: resumes/s", one["per_second"])
        yield line(f"{who}: cores used by the workers", one["worker_cores"])
        yield line(f"{who}: cores used by all else", one["other_cores"])


def is_small(one: Figures, kind: str) -> bool:
    """Whether these are figures of such a store and of a result of the usual size."""
    return bool(one["kind"] == kind and one["result_bytes"] == RESULT_BYTES)


def parked_facts(parked: Figures) -> Iterator[list[str]]:
    """What it takes to look after conversations that wait."""
    who = f"SQLite, {parked['requests']:,} parked"
    yield line(f"{who}: KB on disk for each", parked["disk_bytes"] / parked["requests"] / 1e3)
    yield line(f"{who}: KiB of memory of a new process", parked["fresh_kb"])
    yield line(f"{who}: KiB after the first page of requests", parked["open_kb"])
    yield line(f"{who}: KiB after all pages and some resumes", parked["end_kb"])
    for name, what in (
        ("first_page", "open, and list a page"),
        ("page", "list a page"),
        ("all", "list the others"),
        ("resume", "resume one"),
    ):
        yield line(f"{who}: {what}: ms", parked[f"{name}_ms"])
        yield line(f"{who}: {what}: ms of CPU", parked[f"{name}_cpu_ms"])


def line(title: str, value: float, aim: table.Aim | None = None) -> list[str]:
    """A figure and its aim."""
    return [title, table.number(value), *table.verdict(aim, value, None)]
