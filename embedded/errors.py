"""The one error that the embedded servers raise for people."""

from __future__ import annotations


class EmbeddedError(Exception):
    """A foreseen failure, told in one line: what is wrong, where, what to do.

    Args:
        what: What is wrong.
        where: The path, port or process concerned.
        do: What the reader can do about it.
        detail: Further lines, such as the end of a log; printed below the line.
    """

    def __init__(self, what: str, where: str, do: str, detail: str = "") -> None:
        """Keep the parts as attributes, so that callers need not parse the text."""
        super().__init__(what, where, do, detail)
        self.what = what
        self.where = where
        self.do = do
        self.detail = detail

    def __str__(self) -> str:
        """Return one line, and the detail below it if there is any."""
        line = f"{self.what}: {self.where}; {self.do}"
        return f"{line}\n{self.detail}" if self.detail else line
