"""The typed form of a run, which the UI shows and which REST and the command line accept."""

from __future__ import annotations

from airflow.sdk import Param


def flag_param(title: str, description: str | None = None) -> Param:
    """Return a param for a yes or no; the default is no."""
    return Param(False, type="boolean", title=title, description=description)


def dry_run_param(default: bool) -> Param:
    """Return the param with which a run only plans."""
    return Param(
        default, type="boolean", title="Dry run", description="Plan and report; write nothing."
    )


FORCE = flag_param(
    "Force",
    "Process pieces again that are done, and time buckets that live readers may still read.",
)

STRATEGY = Param(
    None,
    type=["null", "string"],
    enum=[None, "scan", "tails", "index"],
    title="Strategy",
    description="How to find the events: `scan` reads all keys of messages, `tails` reads after the"
    " last complete event of each persistence id, `index` uses the index on timestamp. Empty: the"
    " cheapest strategy.",
)

FLAG_BELOW_RETENTION = flag_param(
    "Below the retention", "Accept fewer days than TIDEMARK_RETENTION_DAYS."
)

SCOPE = Param(
    None,
    type=["null", "string"],
    enum=[None, "new", "all"],
    title="Scope",
    description="`new`: check only new events, and everything if that is not conclusive. `all`:"
    " check everything, including time buckets that have passed. Empty: new.",
)

LAYERS = Param(
    [],
    type=["null", "array"],
    items={"type": "string", "enum": ["kafka_journal", "projections", "storage"]},
    examples=["kafka_journal", "projections", "storage"],
    title="Further layers",
    description="Layers to check in addition to messages and tag views, even if no time bucket is"
    " due. If empty, the run checks `storage` and every layer that has open blocking findings.",
)

STRICT = flag_param(
    "Strict",
    "If an event of a projection is missing, fail the projection before it writes.",
)

ACCEPT_PURGED = flag_param(
    "Accept purged", "Skip events that were deleted before they were consumed."
)

SLICES = Param(
    None,
    type=["null", "string"],
    pattern=r"^\d+-\d+$",
    title="Slices",
    description="Only persistence ids of these slices, such as 0-255. Empty: all of them.",
)


def run_form(
    *, dry_run: bool = False, empty: str = "the run's data interval", **own: Param
) -> dict[str, Param]:
    """Return the params that every DAG has, followed by its own, such as `force=FORCE`.

    `dry_run` is the default of that param; `empty` says what an empty window means.
    """
    return {
        "window_start": moment_param(
            "Window start",
            "First moment of event time, UTC, such as 2013-01-01T00:00:00Z."
            f" Empty: {empty}. Give both ends or neither; leave both empty in a backfill.",
        ),
        "window_end": moment_param(
            "Window end", "End of event time, UTC, exclusive. Give both ends or neither."
        ),
        "dry_run": dry_run_param(dry_run),
        **own,
    }


def moment_param(title: str, description: str) -> Param:
    """Return a param for an optional time."""
    types = ["null", "string"]
    return Param(None, type=types, format="date-time", title=title, description=description)


def names_param(title: str, empty: str) -> Param:
    """Return a param for names, one a line; `empty` says what an empty list means."""
    items = {"type": "string"}
    description = f"One per line. Empty: {empty}."
    # Without null among its types, the UI marks a field as required.
    types = ["null", "array"]
    return Param([], type=types, items=items, title=title, description=description)


def text_param(title: str, description: str | None = None) -> Param:
    """Return a param for an optional text."""
    return Param(None, type=["null", "string"], title=title, description=description)


def lines_param(title: str, description: str) -> Param:
    """Return a param for an optional text of several lines."""
    types = ["null", "string"]
    return Param(None, type=types, format="multiline", title=title, description=description)


def directory_param(title: str, description: str) -> Param:
    """Return a param for an optional directory or its URI, which the application checks."""
    return Param(
        None,
        type=["null", "string"],
        pattern=r"\S",
        title=title,
        description=f"{description} A name, an absolute path or a URI, below TIDEMARK_SAVE_DIRS.",
    )


SAVE_TO = directory_param(
    "Save to",
    "Rows are saved here before they are deleted; cleanup restores them. Empty:"
    " TIDEMARK_PURGE_SAVE_TO.",
)


def number_param(
    title: str, minimum: int, maximum: int = 2**63 - 1, description: str | None = None
) -> Param:
    """Return a param for an optional whole number."""
    types = ["null", "integer"]
    return Param(
        None, type=types, minimum=minimum, maximum=maximum, title=title, description=description
    )
