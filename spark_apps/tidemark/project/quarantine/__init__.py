"""Lists, retries and discards quarantined events, which projections could not process.

`retry` plans the time buckets of the events again, and the next run processes them like any
restated time bucket. A run releases an event from quarantine after its result and its offsets are
written, so that an event that fails again stays in quarantine, with the new cause.
"""
