"""Its import ends the process."""

import ctypes

ctypes.string_at(0)
