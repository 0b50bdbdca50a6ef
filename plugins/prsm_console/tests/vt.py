"""A terminal as far as the console uses one: rows that wrap and scroll, a cursor that goes up."""

import re

from prsm_core.terminal.cells import char_width

_TOKEN = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Vt:
    """What a person sees: `rows` is the screen, `history` all rows that have scrolled by too."""

    def __init__(self, columns=80, rows=24):
        self.columns, self.height = columns, rows
        self._lines = [""]
        self._row = self._column = 0

    def feed(self, text):
        for number, letter, char in _TOKEN.findall(text):
            if letter:
                self._control(letter, int(number.partition(";")[0] or 1))
            else:
                self._put(char)

    def _control(self, letter, count):
        if letter in "AB":
            top, bottom = max(len(self._lines) - self.height, 0), len(self._lines) - 1
            wanted = self._row + (count if letter == "B" else -count)
            self._row = min(max(wanted, top), bottom)
        elif letter == "C":
            self._column = min(self._column + count, self.columns - 1)
        elif letter in "JK":
            self._lines[self._row] = self._lines[self._row][: self._column]
            del self._lines[self._row + 1 if letter == "J" else len(self._lines) :]
        elif letter == "L":
            self._insert(count)
        elif letter not in "mhl":
            raise AssertionError(f"an unknown sequence: {letter}")

    def _insert(self, count):
        """Insert rows; what is pushed over the edge is gone."""
        top, height = max(0, len(self._lines) - self.height), len(self._lines)
        self._lines[self._row : self._row] = [""] * count
        del self._lines[top + self.height :]
        while len(self._lines) > height and not self._lines[-1]:
            self._lines.pop()

    def resize(self, columns):
        """Change the width, and fold rows that are too long, as most terminals do."""
        lines, self.columns = self._lines, columns
        below = lines[self._row :]
        self._lines = []
        for line in lines:
            self._lines += [line[i : i + columns] for i in range(0, len(line) or 1, columns)]
        self._row = len(self._lines) - len(below)

    @property
    def rows(self):
        return [line.rstrip() for line in self._lines[-self.height :]]

    @property
    def history(self):
        return "\n".join(line.rstrip() for line in self._lines)

    def _put(self, char):
        if char == "\n":
            self._row, self._column = self._row + 1, 0
            self._lines += [""] * (self._row + 1 - len(self._lines))
        elif char == "\r":
            self._column = 0
        else:
            if self._column + char_width(char) > self.columns:
                self._put("\n")
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += char_width(char)
