"""The yardstick: the plain connector, its defaults unchanged, writes the rows of a table.

`python -m benchmarks.plain_copy KEYSPACE TABLE TARGET_KEYSPACE` reads one table and writes the same
rows into the table of the same name in another keyspace. The last line of its output counts them.
"""

from __future__ import annotations

import json
import sys

from benchmarks.plain import FORMAT, session


def main(keyspace: str, table: str, target: str) -> None:
    """Copy one table."""
    spark = session("plain copy")
    rows = spark.read.format(FORMAT).options(keyspace=keyspace, table=table).load()
    rows.write.format(FORMAT).options(keyspace=target, table=table).mode("append").save()
    print(json.dumps({"rows": rows.select(rows.columns[0]).count()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
