"""project: makes read models from events, each defined in one file of SQL or Python.

The steps of a run are packages: `planning`, `sources`, `acceptance`, `decoding`, `transformation`,
`writing`, `offset_store`. They use `definition` and `analysis`; `running` calls them. `management`
is for manual changes, `testing` for users' own tests.
"""
