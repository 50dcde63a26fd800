"""All key arithmetic, in plain Python (`keys`) and as Spark columns (`columns`).

Both modules state the same rules under the same names; the tests run both against the same vectors.
"""

from __future__ import annotations
