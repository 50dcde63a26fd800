"""How each aircraft is used: flights, minutes in the air and on the ground, and where it is now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pandas as pd

from tidemark.projection import projection

MINUTE = timedelta(minutes=1)
NEVER_FLOWN = {"departures": 0, "arrivals": 0, "minutes_flown": 0, "minutes_on_ground": 0}


@projection(
    name="aircraft_use",
    version=1,
    source="messages",
    mode="fold",
    target="flights.aircraft_use",
    event="kind STRING, air_time INT",
    state="""departures INT, arrivals INT, minutes_flown BIGINT, minutes_on_ground BIGINT,
             airborne BOOLEAN, landed_at TIMESTAMP""",
    on_error="fail",
)
def aircraft_use(state: dict[str, Any] | None, events: pd.DataFrame) -> dict[str, Any]:
    """Minutes on the ground are those between an arrival and the next departure."""
    use = dict(state or NEVER_FLOWN)
    for event in events.itertuples():
        if event.kind == "departed":
            use["departures"] += 1
            if use.get("landed_at") is not None:
                use["minutes_on_ground"] += (event.timestamp - use["landed_at"]) // MINUTE
            use |= {"airborne": True, "landed_at": None}
        elif event.kind == "arrived":
            use["arrivals"] += 1
            use["minutes_flown"] += int(event.air_time)
            use |= {"airborne": False, "landed_at": event.timestamp.to_pydatetime()}
    return use
