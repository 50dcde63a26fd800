"""project: read models from the events, each defined by one SQL file.

`definition` reads the files, `analysis` has Spark check them, `target` compares them with their
tables, `read` and `transform` make the events, `store` writes, `run` ties it together. `frontier`
tells purge what is processed.
"""
