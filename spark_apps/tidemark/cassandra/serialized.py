"""Cells as the bytes that Cassandra stores.

The driver's values are not always exact: Python has no time after the year 9999, and JSON has no
NaN. Bytes can be written back unchanged, whatever the type of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cassandra import cqltypes
from cassandra.protocol import ResultMessage, _ProtocolHandler, read_int
from cassandra.query import BoundStatement, PreparedStatement


class Serialized(bytes):
    """The bytes of a cell."""

    @property
    def whole_number(self) -> int:
        """Return the value of an int, a bigint or a varint."""
        return int.from_bytes(self, "big", signed=True)


_PROTOCOL = 4
"""The protocol version for decoding values."""
_KINDS: Mapping[str, Any] = {
    name: kind
    for kind in vars(cqltypes).values()
    if (name := getattr(kind, "typename", None)) and kind.num_subtypes == 0
}
"""The driver's types by their names in CQL."""


def readable(kind: str, cell: Serialized | None) -> str:
    """Return a value of a CQL type for people; hexadecimal digits if the type has parts."""
    if cell is None:
        return "null"
    if kind not in _KINDS:
        return f"0x{cell.hex()}"
    value = _KINDS[kind].from_binary(cell, _PROTOCOL)
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


class _SerializedRows(ResultMessage):  # type: ignore[misc]
    """An answer whose rows are not decoded."""

    def recv_results_rows(
        self, f: Any, protocol_version: int, user_type_map: Any, result_metadata: Any, policy: Any
    ) -> None:
        self.recv_results_metadata(f, user_type_map)
        metadata = self.column_metadata or result_metadata
        self.column_names = [column[2] for column in metadata]
        self.column_types = [column[3] for column in metadata]
        self.parsed_rows = [
            tuple(
                None if cell is None else Serialized(cell)
                for cell in self.recv_row(f, len(metadata))
            )
            for _ in range(read_int(f))
        ]


class SerializedRows(_ProtocolHandler):  # type: ignore[misc]
    """The protocol handler of a session that returns all values as `Serialized`.

    The driver documents message types as the way to change how results are decoded.
    """

    message_types_by_opcode: ClassVar = {
        **_ProtocolHandler.message_types_by_opcode,
        ResultMessage.opcode: _SerializedRows,
    }


def bound(prepared: PreparedStatement, values: Mapping[str, object]) -> BoundStatement:
    """Bind values by name; `Serialized` values stay unchanged."""
    statement = prepared.bind(
        {name: None if isinstance(value, Serialized) else value for name, value in values.items()}
    )
    for index, column in enumerate(prepared.column_metadata):
        value = values.get(column.name)
        if isinstance(value, Serialized):
            statement.values[index] = bytes(value)
    return statement
