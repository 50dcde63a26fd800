"""All key arithmetic, in plain Python (`keys`) and as Spark columns (`columns`).

Both modules have the same rules under the same names; the tests run both on the same vectors.
"""

from __future__ import annotations
