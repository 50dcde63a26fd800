"""Events that projections could not process: listed, processed again, or given up.

`retry` plans the time buckets of the events again, and the next run processes them as it processes
any restated time bucket. A run takes an event out of quarantine once its result and its offsets are
written, so that an event that fails again stays, with the new cause.
"""
