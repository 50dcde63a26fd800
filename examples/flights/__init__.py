"""The demo's journal: every flight that left New York in 2013, as Pekko would have written it.

`source` reads the flights, `events` makes and numbers the events, `messages` turns them into rows
of the journal, `plan` cuts them into months, `store` writes them and `run` ties it together.
"""

from __future__ import annotations
