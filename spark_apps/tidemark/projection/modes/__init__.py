"""How a result goes into its target, one module for each mode.

`base` says what a mode consists of, `registry` knows them all; `lake` are the files of `export`.
"""
