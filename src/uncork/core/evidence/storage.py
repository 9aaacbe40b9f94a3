"""Folders and files on disks, and how fast they are: one to keep files in, those of the data."""

from __future__ import annotations

from typing import Final

from uncork.core.base.record import Record

# Over what the elements take in memory: the index of the files, and lengths that vary.
FILE_SIZE_MARGIN: Final = 1.1
# Hidden: Keras takes each folder that it sees among photographs for a class.
CACHE_FOLDER_PREFIX: Final = ".uncork-cache-"
# TensorFlow takes them for patterns: it would not find, and not clear away, what it began.
_PATTERNS: Final = frozenset("*?[]\\")


class ElementIoCost(Record, frozen=True, kw_only=True):
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

    def wall_s(self, element_bytes: float) -> float:
        """Elapsed seconds of an element of so many bytes.

        Example:
            >>> read = ElementIoCost(
            ...     wall_s_per_element=3e-5,
            ...     wall_s_per_byte=2e-9,
            ...     cpu_s_per_element=2e-5,
            ...     cpu_s_per_byte=1e-9,
            ... )
            >>> f"{read.wall_s(600_000):.5f}"
            '0.00123'
        """
        return self.wall_s_per_element + element_bytes * self.wall_s_per_byte

    def cpu_s(self, element_bytes: float) -> float:
        """CPU seconds of an element of so many bytes."""
        return self.cpu_s_per_element + element_bytes * self.cpu_s_per_byte


class CacheFolder(Record, frozen=True, kw_only=True):
    """A folder for files of a cache, as it was found when the training was looked at.

    Attributes:
        path: Its absolute path.
        free_bytes: Room there.
        read_cost: By TensorFlow's cache in files, from the disk and not from the memory that the
            system keeps of it.
        write_cost: Likewise, until it is on the disk.
        refusal_reason: Why no files can be kept there; empty where they can.
    """

    path: str
    free_bytes: int = 0
    read_cost: ElementIoCost | None = None
    write_cost: ElementIoCost | None = None
    refusal_reason: str = ""


def cache_files_bytes(element_bytes: float) -> int:
    """Room that files need which hold so many bytes of elements.

    Example:
        >>> cache_files_bytes(10**9)
        1100000000
    """
    return round(FILE_SIZE_MARGIN * element_bytes)


def folder_name_refusal(folder: str) -> str:
    """Why TensorFlow or a plan cannot take a folder by its name; empty where they can.

    Example:
        >>> folder_name_refusal("/data/my photos"), folder_name_refusal("/data/[1]")
        ('', 'its name contains one of * ? [ ] or a backslash, which TensorFlow reads as a pattern')
    """
    if _PATTERNS & set(folder):
        return (
            "its name contains one of * ? [ ] or a backslash, which TensorFlow reads as a pattern"
        )
    try:
        folder.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8, so a plan cannot contain it"
    return ""


class ColdFiles(Record, frozen=True, kw_only=True):
    """The files that a pipeline reads, where the system does not hold them in memory.

    Attributes:
        total_bytes: Of all of them.
        read_s_per_file: Elapsed seconds for one of them, of several that are read at once.
        read_bytes_per_s: Read so.
    """

    total_bytes: int
    read_s_per_file: float
    read_bytes_per_s: float
