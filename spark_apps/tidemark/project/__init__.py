"""project: read models from the events, each defined by one file of SQL or Python.

The rooms are the steps of a run, in this order: `planning`, `sources`, `acceptance`, `decoding`,
`transformation`, `writing`, `offset_store`. `definition` and `analysis` come before them, `running`
calls them, `management` is what people do by hand, `testing` is for users' own tests.
"""
