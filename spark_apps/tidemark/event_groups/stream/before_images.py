"""Before-images of the rows that groups write, stored until the group has ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from tidemark.cassandra.schema import table
from tidemark.cassandra.serialized import Serialized
from tidemark.context import RunContext
from tidemark.errors import WrongData
from tidemark.event_groups.stream.kept_parts import BEFORE, SIZES, KeptParts
from tidemark.event_groups.stream.states import Cell, Image

_HEXADECIMAL = "0x"


class BeforeImages:
    """The before-images of one stream's groups."""

    def __init__(self, run: RunContext, stream: str) -> None:
        self._control, self._stream, self._keyspace = run.control, stream, run.settings.keyspace
        self._images, self._sizes = (
            table(self._keyspace, name) for name in ("before_image", SIZES)
        )

    def keep(self, group: str, event: str, images: Iterable[Image]) -> None:
        """Store the before-images of an event; more may be left of a run that died."""
        self._control.execute_many(
            f"INSERT INTO {self._images} (stream, group_id, event, number, statement, existed,"
            " row_key, cells) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(self._stream, group, event, number, image.statement, image.existed),
                    json.dumps({name: _digits(part) for name, part in image.key.items()}),
                    json.dumps(
                        {
                            name: (_digits(cell.value), cell.written, cell.expires)
                            for name, cell in image.cells.items()
                        }
                    ),
                )
                for number, image in enumerate(images)
            ],
        )

    def of(self, group: str, event: str, count: int) -> list[Image]:
        """Return the first `count` before-images of an event."""
        rows = self._control.execute(
            f"SELECT statement, existed, row_key, cells FROM {self._images}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND number < ?",
            (self._stream, group, event, count),
        )
        return [
            Image(
                row["statement"],
                row["existed"],
                {
                    name: _bytes(part) or Serialized()
                    for name, part in json.loads(row["row_key"]).items()
                },
                {
                    name: Cell(_bytes(value), written, expires)
                    for name, (value, written, expires) in json.loads(row["cells"]).items()
                },
            )
            for row in rows
        ]

    def win_over_earlier_runs(self, group: str) -> None:
        """Let this session's writes for a group win over what others have stored of it."""
        key = {"stream": self._stream, "group_id": group}
        newest = max(
            self._control.newest_write_time(self._images, "existed", key),
            self._parts(group).newest_write_time(),
        )
        self._control.write_times.pass_by(newest)

    def forget(self, group: str, ensure_locked: Callable[[], None]) -> None:
        """Delete the before-images: the group may be there to erase what they contain.

        Images of other sessions are only deleted after `win_over_earlier_runs`. `ensure_locked`
        was called before, and is called before each further write.
        """
        self._control.execute(
            f"DELETE FROM {self._images} WHERE stream = ? AND group_id = ?", (self._stream, group)
        )
        parts = self._parts(group)
        for event in parts.events(BEFORE):
            ensure_locked()
            parts.empty(event, BEFORE)
            ensure_locked()
            parts.forget(event, BEFORE)

    def forget_of_all(self, group: str, ensure_locked: Callable[[], None]) -> None:
        """Delete the before-images, including those that other sessions have stored."""
        self.win_over_earlier_runs(group)
        ensure_locked()
        self.forget(group, ensure_locked)

    def having_images(self, groups: Sequence[str]) -> list[str]:
        """Return those of the groups that have before-images."""
        keys = [(self._stream, group) for group in groups]
        image_rows = self._control.execute_many(
            f"SELECT group_id FROM {self._images} WHERE stream = ? AND group_id = ? LIMIT 1", keys
        )
        size_rows = self._control.execute_many(
            f"SELECT group_id, kind FROM {self._sizes} WHERE stream = ? AND group_id = ?", keys
        )
        names = {rows[0]["group_id"] for rows in image_rows if rows}
        names |= {row["group_id"] for rows in size_rows for row in rows if row["kind"] == BEFORE}
        return sorted(names)

    def _parts(self, group: str) -> KeptParts:
        return KeptParts(self._control, self._keyspace, (self._stream, group))


def _digits(value: Serialized | None) -> str | None:
    return None if value is None else _HEXADECIMAL + value.hex()


def _bytes(digits: str | None) -> Serialized | None:
    if digits is None:
        return None
    if not digits.startswith(_HEXADECIMAL):
        raise WrongData(
            "rows before its events were kept by an older version, as JSON",
            do="put them back by hand, see the table before_image, and settle the group",
        )
    return Serialized.fromhex(digits.removeprefix(_HEXADECIMAL))
