"""Folders and files on disks, and how fast they are: one to keep files in, those of the data."""

from __future__ import annotations

from typing import Final

from uncork.core.base.record import Record

# Over what the elements take in memory: the index of the files, and lengths that vary.
MARGIN: Final = 1.1
# Hidden: Keras takes each folder that it sees among photographs for a class.
FOLDER_PREFIX: Final = ".uncork-cache-"
# TensorFlow takes them for patterns: it would not find, and not clear away, what it began.
_PATTERNS: Final = frozenset("*?[]\\")


class Speed(Record, frozen=True, kw_only=True):
    """What handling one element after the other takes: so much for each, and for each byte of it.

    Attributes:
        wall_s_per_element: Elapsed seconds of an element without content.
        wall_s_per_byte: Elapsed seconds beyond those.
        cpu_s_per_element: CPU seconds likewise.
        cpu_s_per_byte: CPU seconds likewise.
    """

    wall_s_per_element: float
    wall_s_per_byte: float
    cpu_s_per_element: float
    cpu_s_per_byte: float

    def wall_s(self, size: float) -> float:
        """Elapsed seconds of an element of so many bytes.

        Example:
            >>> read = Speed(wall_s_per_element=3e-5, wall_s_per_byte=2e-9,
            ...              cpu_s_per_element=2e-5, cpu_s_per_byte=1e-9)
            >>> f"{read.wall_s(600_000):.5f}"
            '0.00123'
        """
        return self.wall_s_per_element + size * self.wall_s_per_byte

    def cpu_s(self, size: float) -> float:
        """CPU seconds of an element of so many bytes."""
        return self.cpu_s_per_element + size * self.cpu_s_per_byte


class Disk(Record, frozen=True, kw_only=True):
    """A folder for files of a cache, as it was found when the training was looked at.

    Attributes:
        folder: Its absolute path.
        free_bytes: Room there.
        read: By TensorFlow's cache in files, from the disk and not from the memory that the system
            keeps of it.
        write: Likewise, until it is on the disk.
        refused: Why no files can be kept there; empty where they can.
    """

    folder: str
    free_bytes: int = 0
    read: Speed | None = None
    write: Speed | None = None
    refused: str = ""


def files_bytes(size: float) -> int:
    """Room that files need which hold so many bytes of elements.

    Example:
        >>> files_bytes(10**9)
        1100000000
    """
    return round(MARGIN * size)


def refused_name(folder: str) -> str:
    """Why TensorFlow or a plan cannot take a folder by its name; empty where they can.

    Example:
        >>> refused_name("/data/my photos"), refused_name("/data/[1]")
        ('', 'its name holds one of * ? [ ] or a backslash, which TensorFlow takes for patterns')
    """
    if _PATTERNS & set(folder):
        return "its name holds one of * ? [ ] or a backslash, which TensorFlow takes for patterns"
    try:
        folder.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8, and a plan could not hold it"
    return ""


class FromDisk(Record, frozen=True, kw_only=True):
    """The files that a pipeline reads, where the system does not hold them in memory.

    Attributes:
        bytes: Of all of them.
        file_s: Elapsed seconds for one of them, of several that are read at once.
        bytes_per_s: Read so.
    """

    bytes: int
    file_s: float
    bytes_per_s: float
