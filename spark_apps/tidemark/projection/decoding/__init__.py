"""How a projection reads its events' payloads: the header `decoder:`, checked and applied."""

from __future__ import annotations
